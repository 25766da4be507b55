{{/* Who may use which FlexVolume drivers, which CSI drivers of this chart's, and in which namespaces
they are: an object of JSON. */}}
{{- define "pod-info-fuse.users" -}}
{{- $drivers := concat (list .Values.driver) .Values.policies.otherDrivers | uniq -}}
{{- $csi := list -}}
{{- if .Values.csi.enabled -}}
{{- $csi = list (include "pod-info-fuse.csiName" .) -}}
{{- end -}}
{{- $users := dict "users" (dict "drivers" $drivers "csi" $csi "namespaces" .Values.policies.namespaces) -}}
{{- if .Values.podFuse.enabled -}}
{{- $both := append $drivers .Values.podFuse.driver | uniq -}}
{{- if include "pod-info-fuse.podFuseCSI" . -}}
{{- $csi = append $csi (include "pod-info-fuse.podFuseCSIName" .) -}}
{{- end -}}
{{- $_ := set $users "pod-fuse-users" (dict "drivers" $both "csi" $csi "namespaces" .Values.policies.podFuseNamespaces) -}}
{{- end -}}
{{- toJson $users -}}
{{- end -}}

{{- define "pod-info-fuse.driverMessage" -}}
FlexVolume drivers that may be used here: {{ join ", " . }}. Use one of them, or ask the administrator to add yours.
{{- end -}}

{{/* A key with a letter beyond ASCII may pass for one of those that only the kubelet
may set. */}}
{{- define "pod-info-fuse.plainKey" -}}
k.matches("^[!-~]+$")
{{- end -}}

{{- define "pod-info-fuse.optionMessage" -}}
Keys of FlexVolume options must be printable ASCII without spaces. Write the key anew; it may have a letter that only looks like another.
{{- end -}}

{{/* A policy that denies pods volumes of a driver by their namespace's label. It takes root,
name, label, what, volume: the CEL for a volume v that is one, and either allowed or denied: the
label's value by which the namespace is. */}}
{{- define "pod-info-fuse.policyByLabel" -}}
{{- $value := or .allowed .denied -}}
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata:
  name: {{ .name }}
  labels:
    {{- include "pod-info-fuse.labels" .root | nindent 4 }}
spec:
  failurePolicy: Fail
  matchConstraints:
    resourceRules:
      - apiGroups: [""]
        apiVersions: [v1]
        resources: [pods]
        operations: [CREATE]
  validations:
    - expression: >-
        !has(object.spec.volumes) || object.spec.volumes.all(v,
        !({{ .volume }}))
      message: >-
        {{ .what }} may not be used in this namespace. Ask the administrator to {{ if .allowed }}give the namespace the label{{ else }}remove the namespace's label{{ end }} {{ .label }}={{ $value }}.
      reason: Forbidden
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata:
  name: {{ .name }}
  labels:
    {{- include "pod-info-fuse.labels" .root | nindent 4 }}
spec:
  policyName: {{ .name }}
  validationActions: [Deny]
  matchResources:
    namespaceSelector:
      matchExpressions:
        - key: {{ .label }}
          operator: {{ if .allowed }}NotIn{{ else }}In{{ end }}
          values: [{{ $value }}]
{{- end -}}
