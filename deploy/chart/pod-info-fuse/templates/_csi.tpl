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

{{/* The name in CSI of pod-fuse, and whether there is a plugin for it: not empty. */}}
{{- define "pod-info-fuse.podFuseCSIName" -}}
{{- include "pod-info-fuse.dnsName" (list .Values.podFuse.driver "podFuse.csi.enabled") -}}
{{- end -}}
{{- define "pod-info-fuse.podFuseCSI" -}}
{{- if and .Values.podFuse.csi.enabled (include "pod-info-fuse.podFuse" .) }}true{{ end -}}
{{- end -}}

{{/* A container that serves the kubelet for a driver. It takes root, name, which is that of the
volume with its socket as well, driver, pluginDir, uninstall; and attributes, where they are not the
plugin's default, and policyAttribute, where there is one. */}}
{{- define "pod-info-fuse.csiPlugin" -}}
- name: {{ .name }}
  image: {{ include "pod-info-fuse.image" .root }}
  imagePullPolicy: {{ .root.Values.image.pullPolicy }}
  command: [/pod-info-fuse-csi]
  args:
    - serve
    - --driver={{ .driver }}
    - --node-id=$(NODE_NAME)
    - --kubelet-dir={{ .root.Values.kubeletDir }}
    {{- with .pluginDir }}
    - --binary={{ . }}/{{ replace "/" "~" $.driver }}/{{ last (splitList "/" $.driver) }}
    {{- end }}
    {{- with .attributes }}
    - --attributes={{ . }}
    {{- end }}
    {{- with .policyAttribute }}
    - --policy-attribute={{ . }}
    {{- end }}
    {{- with include "pod-info-fuse.logFormat" .root }}
    {{ . }}
    {{- end }}
  env:
    - name: NODE_NAME
      valueFrom:
        fieldRef:
          fieldPath: spec.nodeName
  {{- if not .uninstall }}
  # Not while it is being uninstalled: the last thing to go are its sockets.
  readinessProbe:
    exec:
      command: [/pod-info-fuse-csi, probe]
    initialDelaySeconds: 2
    periodSeconds: 10
    timeoutSeconds: 5 # it waits for up to four until the driver is installed
  livenessProbe:
    exec:
      command: [/pod-info-fuse-csi, probe, --live]
    initialDelaySeconds: 10
    periodSeconds: 30
    timeoutSeconds: 5
  {{- end }}
  {{- with .root.Values.csi.resources }}
  resources:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  securityContext:
    runAsUser: 0
    runAsGroup: 0
    # It calls the driver in the host's namespaces, as the kubelet does.
    privileged: true
    readOnlyRootFilesystem: true
  volumeMounts:
    - name: {{ .name }}
      mountPath: /csi
    - name: registration
      mountPath: /registration
{{- end -}}
