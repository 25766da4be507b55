{{/* The name of the release's objects. */}}
{{- define "pod-info-fuse.name" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "pod-info-fuse.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "pod-info-fuse.labels" -}}
{{ include "pod-info-fuse.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- end -}}

{{/* Not empty where a driver is being removed from the nodes. */}}
{{- define "pod-info-fuse.removes" -}}
{{- if or .Values.uninstall .Values.podFuse.uninstall }}true{{ end -}}
{{- end -}}

{{/* Not empty where one of the pod's containers is privileged, as it mounts or unmounts. */}}
{{- define "pod-info-fuse.privilegedPod" -}}
{{- if or (include "pod-info-fuse.removes" .) .Values.healFromHost .Values.csi.enabled (include "pod-info-fuse.podFuseCSI" .) }}true{{ end -}}
{{- end -}}

{{/* The image of all containers. */}}
{{- define "pod-info-fuse.image" -}}
"{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}"
{{- end -}}
