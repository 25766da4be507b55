{{/* The drivers that pods may use, as a list of CEL. */}}
{{- define "pod-info-fuse.drivers" -}}
{{- concat (list .Values.driver) .Values.policies.otherDrivers | uniq | toJson -}}
{{- end -}}

{{- define "pod-info-fuse.driverMessage" -}}
FlexVolume drivers that may be used here: {{ concat (list .Values.driver) .Values.policies.otherDrivers | uniq | join ", " }}. Use one of them, or ask the administrator to add yours.
{{- end -}}

{{/* A key with a letter beyond ASCII may pass for one of those that only the kubelet
may set. */}}
{{- define "pod-info-fuse.plainKey" -}}
k.matches("^[!-~]+$")
{{- end -}}

{{- define "pod-info-fuse.optionMessage" -}}
Keys of FlexVolume options must be printable ASCII without spaces. Write the key anew; it may have a letter that only looks like another.
{{- end -}}
