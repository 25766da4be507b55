{{/* DRIVER.VENDOR of VENDOR/DRIVER, for a purpose that needs a DNS name: a list of both. */}}
{{- define "pod-info-fuse.dnsName" -}}
{{- $driver := first . -}}
{{- $parts := splitList "/" $driver -}}
{{- $name := printf "%s.%s" (last $parts) (first $parts) -}}
{{- if not (and (le (len $name) 63) (regexMatch "^[a-z0-9]([a-z0-9-]*[a-z0-9])?([.][a-z0-9]([a-z0-9-]*[a-z0-9])?)*$" $name)) -}}
{{- fail (printf "%s: the driver %s would be %s, which is no DNS name of at most 63 characters; give it another name" (last .) $driver $name) -}}
{{- end -}}
{{- $name -}}
{{- end -}}

{{/* The driver's name in CSI. */}}
{{- define "pod-info-fuse.csiName" -}}
{{- include "pod-info-fuse.dnsName" (list .Values.driver "csi.enabled") -}}
{{- end -}}

{{/* The directory of the plugin's socket on the node. */}}
{{- define "pod-info-fuse.csiDir" -}}
{{- printf "%s/plugins/%s" .Values.kubeletDir (include "pod-info-fuse.csiName" .) -}}
{{- end -}}

{{/* The plugin directory: where the installer puts the driver. Empty: each node's kubelet is
asked. Without FlexVolume, no kubelet has to find the driver there, and it is beside the
plugin's socket. */}}
{{- define "pod-info-fuse.pluginDir" -}}
{{- if .Values.flexVolume.enabled -}}
{{- .Values.pluginDir -}}
{{- else if .Values.csi.enabled -}}
{{- include "pod-info-fuse.csiDir" . -}}
{{- else -}}
{{- fail "flexVolume.enabled and csi.enabled are both false: pods would have no way to the driver" -}}
{{- end -}}
{{- end -}}
