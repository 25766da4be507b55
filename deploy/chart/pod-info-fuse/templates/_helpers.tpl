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

{{/* Not empty where the installer has to mount or unmount, which it must be
privileged for. */}}
{{- define "pod-info-fuse.privileged" -}}
{{- if or .Values.healFromHost .Values.uninstall }}true{{ end -}}
{{- end -}}

{{/* Not empty where one of the pod's containers is privileged. */}}
{{- define "pod-info-fuse.privilegedPod" -}}
{{- if or (include "pod-info-fuse.privileged" .) .Values.csi.enabled }}true{{ end -}}
{{- end -}}

{{/* The image of all containers. */}}
{{- define "pod-info-fuse.image" -}}
"{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}"
{{- end -}}
