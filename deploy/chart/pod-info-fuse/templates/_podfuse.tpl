{{/* Not empty where there is a container for pod-fuse, that installs or removes it. */}}
{{- define "pod-info-fuse.podFuse" -}}
{{- if or .Values.podFuse.enabled .Values.podFuse.uninstall }}true{{ end -}}
{{- end -}}

{{/* What is said of pod-fuse, and cannot be had. What is on the nodes stays there when nobody
removes it: it would get no new version, and no healing. Only where Helm can ask the cluster is it
known that it is there. */}}
{{- define "pod-info-fuse.checkPodFuse" -}}
{{- if include "pod-info-fuse.podFuse" . -}}
{{- if eq .Values.podFuse.driver .Values.driver -}}
{{- fail (printf "podFuse.driver: %s is the name of the first driver; give one of them another name" .Values.driver) -}}
{{- end -}}
{{- if and .Values.csi.enabled .Values.podFuse.csi.enabled (eq (include "pod-info-fuse.podFuseCSIName" .) (include "pod-info-fuse.csiName" .)) -}}
{{- fail (printf "podFuse.driver: %s is %s in CSI, as the first driver; give one of them another name" .Values.podFuse.driver (include "pod-info-fuse.csiName" .)) -}}
{{- end -}}
{{- if eq (int .Values.podFuse.metricsPort) (int .Values.metrics.port) -}}
{{- fail (printf "podFuse.metricsPort: %v is metrics.port, in the same pod; set another one" .Values.metrics.port) -}}
{{- end -}}
{{- else -}}
{{- $now := lookup "apps/v1" "DaemonSet" .Release.Namespace (include "pod-info-fuse.name" .) -}}
{{- range dig "spec" "template" "spec" "containers" list $now -}}
{{- if and (eq .name "pod-fuse") (has "install" .args) -}}
{{- fail "podFuse.enabled is false, and the driver is on the nodes: first set podFuse.uninstall=true as well, and wait for the rollout" -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
