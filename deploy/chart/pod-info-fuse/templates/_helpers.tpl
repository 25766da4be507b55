{{/* Values that 0.1.1 did not have may be missing: `helm upgrade --reuse-values` has no new ones. */}}

{{/* The name of the release's objects. */}}
{{- define "pod-info-fuse.name" -}}
{{- $name := .Values.nameOverride | default .Chart.Name -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* No value changes it: a DaemonSet's selector cannot be changed. */}}
{{- define "pod-info-fuse.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{/* Of every object but pods. */}}
{{- define "pod-info-fuse.labels" -}}
{{ include "pod-info-fuse.labelsAnd" (list . dict) }}
{{- end -}}

{{/* The same with some more, of a list: root, the others. */}}
{{- define "pod-info-fuse.labelsAnd" -}}
helm.sh/chart: {{ printf "%s-%s" (first .).Chart.Name (first .).Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
app.kubernetes.io/managed-by: {{ (first .).Release.Service }}
{{ include "pod-info-fuse.podLabels" . }}
{{- end -}}

{{/* Of pods, of the same list. The chart's version is not among them: it alone would start all pods anew. */}}
{{- define "pod-info-fuse.podLabels" -}}
{{- $root := first . -}}
{{ include "pod-info-fuse.selector" $root }}
app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
{{- with merge dict (last . | default dict) ($root.Values.commonLabels | default dict) }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* Not empty where the chart makes the service account; and the name of the pods' one. */}}
{{- define "pod-info-fuse.makesServiceAccount" -}}
{{- if dig "create" true (.Values.serviceAccount | default dict) }}true{{ end -}}
{{- end -}}
{{- define "pod-info-fuse.serviceAccount" -}}
{{- (.Values.serviceAccount).name | default (include "pod-info-fuse.makesServiceAccount" . | empty | ternary "default" (include "pod-info-fuse.name" .)) -}}
{{- end -}}

{{/* Not empty where a driver is being removed from the nodes. */}}
{{- define "pod-info-fuse.removes" -}}
{{- if or .Values.uninstall .Values.podFuse.uninstall }}true{{ end -}}
{{- end -}}

{{/* Not empty where one of the pod's containers is privileged, as it mounts or unmounts. */}}
{{- define "pod-info-fuse.privilegedPod" -}}
{{- if or (include "pod-info-fuse.removes" .) .Values.healFromHost .Values.csi.enabled (include "pod-info-fuse.podFuseCSI" .) }}true{{ end -}}
{{- end -}}

{{/* The image of all containers. The first part of a repository is its registry if it has a dot or a
colon, or is localhost. */}}
{{- define "pod-info-fuse.image" -}}
{{- $image := .Values.image -}}
{{- $repository := $image.repository -}}
{{- with (.Values.global).imageRegistry | default $image.registry -}}
{{- $repository = printf "%s/%s" . (regexReplaceAll "^([^/]*[.:][^/]*|localhost)/" $repository "") -}}
{{- end -}}
{{- if $image.digest -}}
{{ printf "%s%s@%s" $repository ($image.tag | empty | ternary "" (print ":" $image.tag)) $image.digest | quote }}
{{- else -}}
{{ printf "%s:%s" $repository ($image.tag | default .Chart.AppVersion) | quote }}
{{- end -}}
{{- end -}}

{{/* The format of the log, where it is not the default. */}}
{{- define "pod-info-fuse.logFormat" -}}
{{- if eq (.Values.logFormat | default "text") "json" }}- --log-format=json{{ end -}}
{{- end -}}

{{/* How pods are replaced. maxUnavailable alone is what 0.1.1 had. */}}
{{- define "pod-info-fuse.updateStrategy" -}}
{{- $strategy := .Values.updateStrategy -}}
{{- $type := $strategy.type | default "RollingUpdate" -}}
type: {{ $type }}
{{- if eq $type "RollingUpdate" }}
rollingUpdate:
  maxUnavailable: {{ $strategy.maxUnavailable | default ($strategy.rollingUpdate).maxUnavailable }}
{{- end }}
{{- end -}}
