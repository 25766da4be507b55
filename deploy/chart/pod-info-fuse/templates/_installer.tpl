{{/* A container that keeps a driver on the node, or removes it. It takes root, name, program,
driver, pluginDir, uninstall, portName, port and resources; flags, mounts and nodeName where there
are any. */}}
{{- define "pod-info-fuse.installer" -}}
- name: {{ .name }}
  image: {{ include "pod-info-fuse.image" .root }}
  imagePullPolicy: {{ .root.Values.image.pullPolicy }}
  command: [/{{ .program }}]
  args:
    - {{ if .uninstall }}uninstall{{ else }}install{{ end }}
    - --watch
    - --root=/host
    - --listen=:{{ .port }}
    - --driver={{ .driver }}
    {{- with .pluginDir }}
    - --plugin-dir={{ . }}
    {{- end }}
    {{- range .flags }}
    - {{ . }}
    {{- end }}
    {{- with include "pod-info-fuse.logFormat" .root }}
    {{ . }}
    {{- end }}
  {{- if .nodeName }}
  env:
    - name: NODE_NAME
      valueFrom:
        fieldRef:
          fieldPath: spec.nodeName
  {{- end }}
  ports:
    - name: {{ .portName }}
      containerPort: {{ .port }}
  readinessProbe:
    httpGet:
      path: /readyz
      port: {{ .portName }}
    initialDelaySeconds: 2
    periodSeconds: 5
    timeoutSeconds: 5 # the first answer waits for up to four until the driver is installed
  livenessProbe:
    httpGet:
      path: /healthz
      port: {{ .portName }}
    initialDelaySeconds: 10
    timeoutSeconds: 5
  {{- with .resources }}
  resources:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- /* The least that works. */}}
  securityContext:
    runAsUser: 0
    runAsGroup: 0
    {{- if or .uninstall .root.Values.healFromHost }}
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
    {{- with .root.Values.seLinuxType }}
    seLinuxOptions:
      type: {{ . }}
    {{- end }}
  volumeMounts:
    - name: host
      mountPath: /host
      # The driver's mount, which is made later, is seen, too.
      mountPropagation: HostToContainer
    {{- range $volume, $path := .mounts }}
    - name: {{ $volume }}
      mountPath: {{ $path }}
      readOnly: true
    {{- end }}
{{- end -}}
