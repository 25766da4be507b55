{{/* Not empty where an admission policy puts FUSE programs into pods. */}}
{{- define "pod-info-fuse.injects" -}}
{{- if and .Values.podFuse.enabled (or .Values.podFuse.programs .Values.podFuse.servesAnnotation) (not .Values.uninstall) (not .Values.podFuse.uninstall) }}true{{ end -}}
{{- end -}}

{{/* The annotation that names a container of the pod's own. */}}
{{- define "pod-info-fuse.servesAnnotation" -}}
{{- include "pod-info-fuse.dnsName" (list .Values.podFuse.driver "podFuse.programs") }}/serves
{{- end -}}

{{/* A value in CEL. Lists and maps there have elements of one type: dyn. */}}
{{- define "pod-info-fuse.cel" -}}
{{- if kindIs "map" . -}}
{{ "{" }}{{ range $i, $key := keys . | sortAlpha }}{{ if $i }}, {{ end }}{{ toJson $key }}: dyn({{ include "pod-info-fuse.cel" (index $ $key) }}){{ end }}{{ "}" }}
{{- else if kindIs "slice" . -}}
[{{ range $i, $element := . }}{{ if $i }}, {{ end }}dyn({{ include "pod-info-fuse.cel" $element }}){{ end }}]
{{- else -}}
{{ toJson . }}
{{- end -}}
{{- end -}}

{{/* A program as the policies have it, in CEL, of a list: root, the program's name. Of the options
that pods may give, inArguments are those that the command has, and inParts those that it has as a
part of an argument. */}}
{{- define "pod-info-fuse.program" -}}
{{- $name := last . -}}
{{- $p := index (first .).Values.podFuse.programs $name -}}
{{- $where := printf "podFuse.programs.%s" $name -}}
{{- $options := $p.options | default list -}}
{{- $env := $p.env | default dict -}}
{{- $accepts := concat $options (list "wait" "default_permissions") -}}
{{- $needs := list -}}
{{- $inArguments := list -}}
{{- $inParts := list -}}
{{- range $option := $options -}}
{{- if not (hasKey $env $option) }}{{ $needs = append $needs $option }}{{ end -}}
{{- $reference := printf "$(%s)" $option -}}
{{- range $argument := $p.command -}}
{{- if contains $reference $argument -}}
{{- $inArguments = append $inArguments $option | uniq -}}
{{- if ne $argument $reference }}{{ $inParts = append $inParts $option | uniq }}{{ end -}}
{{- range $other := $p.command -}}
{{- if regexMatch "^(.*/)?(ba|da|a|z|k|mk|fi)?sh$" $other -}}
{{- fail (printf "%s.command: a shell would read what a pod writes: have \"$%s\" in the place of %s" $where $option $reference) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- range $variable, $value := $env -}}
{{- range $reader := concat $p.command (values $env) -}}
{{- if and (contains $reference $value) (contains (printf "$(%s)" $variable) $reader) -}}
{{- fail (printf "%s.env.%s: it has %s, and the command or another variable has $(%s): have %s there" $where $variable $reference $variable $reference) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $secret := dict -}}
{{- if hasKey $p "secret" -}}
{{- $accepts = append $accepts "secret" -}}
{{- $secret = $p.secret | default dict -}}
{{- if not $secret.name }}{{ $needs = append $needs "secret" }}{{ end -}}
{{- end -}}
{{- if $p.source -}}
{{- $accepts = append $accepts "source" -}}
{{- $needs = append $needs "source" -}}
{{- end -}}
{{- $mountPoint := contains "$(mountpoint)" (join " " $p.command) -}}
{{- if not (or $mountPoint (contains "{}" (join " " $p.command))) -}}
{{- fail (printf "%s.command: it has neither {} nor $(mountpoint): where would it mount?" $where) -}}
{{- end -}}
{{- if not (hasKey $p "secret") -}}
{{- range $reference := regexFindAll "\\$\\([a-z][a-z0-9_]*\\)" (join " " $p.command) -1 -}}
{{- $variable := $reference | trimPrefix "$(" | trimSuffix ")" -}}
{{- if not (or (eq $variable "mountpoint") (has $variable $options) (hasKey $env $variable)) -}}
{{- fail (printf "%s.command: %s is neither in options nor in env" $where $reference) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $variables := list -}}
{{- range $first := list true false }}{{/* Options' values first: a variable has those before it. */}}
{{- range $key := keys $env | sortAlpha -}}
{{- if eq (has $key $options) $first }}{{ $variables = append $variables (dict "name" $key "value" (index $env $key)) }}{{ end -}}
{{- end -}}
{{- end -}}
{{- include "pod-info-fuse.cel" (dict "image" $p.image "command" $p.command "env" $variables "resources" ($p.resources | default dict)
  "options" $options "accepts" $accepts "needs" $needs "inArguments" $inArguments "inParts" $inParts "mountPoint" $mountPoint
  "secretFiles" (ternary true false (and (hasKey $p "secret") (not (empty $secret.mountPath)))) "secretVariables" (and (hasKey $p "secret") (empty $secret.mountPath))
  "secret" ($secret.name | default "") "secretPath" ($secret.mountPath | default "") "secretMode" ($secret.mode | default 288)
  "source" (not (empty $p.source)) "sourcePath" (dig "mountPath" "" ($p.source | default dict)) "sourceReadOnly" (dig "readOnly" false ($p.source | default dict))) -}}
{{- end -}}

{{/* The names of all programs, for a message. */}}
{{- define "pod-info-fuse.programNames" -}}
{{ keys .Values.podFuse.programs | sortAlpha | join ", " | default "none" }}
{{- end -}}

{{/* What the policies look at: pods that ask for a program. */}}
{{- define "pod-info-fuse.asksForAProgram" -}}
failurePolicy: Fail
matchConstraints:
  resourceRules:
    - apiGroups: [""]
      apiVersions: [v1]
      resources: [pods]
      operations: [CREATE]
matchConditions:
  - name: asks-for-a-program
    expression: >-
      {{ include "pod-info-fuse.servesAnnotation" . | quote }} in object.metadata.?annotations.orValue({}) ||
      object.spec.?volumes.orValue([]).exists(v, {{ include "pod-info-fuse.podFuseVolume" . }} &&
      ("program" in v.?flexVolume.?options.orValue({}) || "program" in v.?csi.?volumeAttributes.orValue({})))
{{- end -}}

{{/* CEL for a volume v of the driver. */}}
{{- define "pod-info-fuse.podFuseVolume" -}}
(v.?flexVolume.?driver.orValue("") == {{ .Values.podFuse.driver | quote }} || v.?csi.?driver.orValue("") == {{ include "pod-info-fuse.podFuseCSIName" . | quote }})
{{- end -}}

{{/* Variables of both policies. Where something is wrong, the mutating one does nothing, and the
validating one says it: what the first adds is checked before the second is asked. */}}
{{- define "pod-info-fuse.programVariables" -}}
- name: programs
  expression: >-
    { {{- range $i, $name := keys .Values.podFuse.programs | sortAlpha }}{{ if $i }}, {{ end }}{{ toJson $name }}: dyn({{ include "pod-info-fuse.program" (list $ $name) }}){{ end -}} }
- name: volumes # of the driver, by either door
  expression: >-
    object.spec.?volumes.orValue([]).filter(v, {{ include "pod-info-fuse.podFuseVolume" . }}).map(v, {
    "name": dyn(v.name), "csi": dyn(has(v.csi)),
    "options": dyn(has(v.csi) ? v.csi.?volumeAttributes.orValue({}) : v.flexVolume.?options.orValue({}))})
- name: clients
  expression: variables.volumes.filter(v, !("serves" in v.options))
- name: asked
  expression: variables.clients.filter(v, "program" in v.options)
- name: known
  expression: variables.asked.filter(v, v.options["program"] in variables.programs)
- name: problems
  expression: >-
    variables.asked.filter(v, !(v.options["program"] in variables.programs)).map(v, {"volume": string(v.name), "text":
    "there is no program " + v.options["program"] + ". Programs: {{ include "pod-info-fuse.programNames" . }}"}) +
    variables.known.map(v, [variables.programs[v.options["program"]]].map(p,
    v.options.filter(k, k != "program" && !(k in p.accepts)).sort().map(k, {"volume": string(v.name), "text":
    "program " + v.options["program"] + " has no option " + k + ". Options: " + p.accepts.join(", ")}) +
    p.needs.filter(k, !(k in v.options)).map(k, {"volume": string(v.name), "text":
    "program " + v.options["program"] + " needs option " + k + ". Options: " + p.accepts.join(", ")}) +
    p.inArguments.filter(k, k in v.options && (v.options[k].startsWith("-") || v.options[k].contains("{}"))).map(k, {"volume": string(v.name), "text":
    "option " + k + " becomes an argument, which may not begin with - or have {}"}) +
    p.inParts.filter(k, k in v.options && (v.options[k].contains(",") || v.options[k].contains("\\"))).map(k, {"volume": string(v.name), "text":
    "option " + k + " becomes a part of an argument, which may not have a comma or a backslash"}) +
    ["secret"].filter(k, v.options[?k].orValue(k) == "").map(k, {"volume": string(v.name), "text":
    "option secret is the name of a Secret in the pod's namespace"}) +
    ["source"].filter(k, p.source && k in v.options && (v.options[k] == v.name || !object.spec.volumes.exists(w, w.name == v.options[k]))).map(k, {"volume": string(v.name), "text":
    "option source is the name of another volume of the pod. Volumes: " + object.spec.volumes.map(w, w.name).filter(w, w != v.name).join(", ")})
    )[0]).flatten()
- name: serves # CONTAINER=VOLUME
  expression: object.metadata.?annotations[?{{ include "pod-info-fuse.servesAnnotation" . | quote }}].orValue("").split("=")
- name: initContainers
  expression: object.spec.?initContainers.orValue([])
- name: servesProblems
  expression: >-
    !({{ include "pod-info-fuse.servesAnnotation" . | quote }} in object.metadata.?annotations.orValue({})) ? [] :
    size(variables.serves) != 2 ? ["its value is CONTAINER=VOLUME: a container of this pod, and the volume that its program serves"] :
    !(variables.initContainers + object.spec.containers).exists(c, c.name == variables.serves[0]) ?
    ["this pod has no container " + variables.serves[0] + ". Containers: " + (variables.initContainers + object.spec.containers).map(c, c.name).join(", ")] :
    object.spec.?volumes.orValue([]).exists(v, v.name == variables.serves[1] && has(v.persistentVolumeClaim)) ?
    ["volume " + variables.serves[1] + " is behind a claim, where no policy looks: without the annotation, give the pod a server volume that serves the persistent volume's name"] :
    !variables.clients.exists(v, v.name == variables.serves[1]) ?
    ["this pod has no volume " + variables.serves[1] + " of {{ .Values.podFuse.driver }} that a program can serve. Volumes: " + variables.clients.map(v, v.name).join(", ")] :
    variables.asked.exists(v, v.name == variables.serves[1]) ?
    ["volume " + variables.serves[1] + " has the option program: remove that, or the annotation"] : []
{{- end -}}
