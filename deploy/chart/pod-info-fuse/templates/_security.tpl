{{/* The least that works. */}}
{{- define "pod-info-fuse.securityContext" -}}
runAsUser: 0
runAsGroup: 0
{{- if include "pod-info-fuse.privileged" . }}
# To mount and unmount in the host's namespaces.
privileged: true
{{- else }}
allowPrivilegeEscalation: false
capabilities:
  drop: [ALL]
  add: [SYS_CHROOT] # into the host's files
seccompProfile:
  type: RuntimeDefault
{{- end }}
readOnlyRootFilesystem: true
{{- with .Values.seLinuxType }}
seLinuxOptions:
  type: {{ . }}
{{- end }}
{{- end -}}
