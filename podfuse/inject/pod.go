package inject

import (
	"maps"
	"slices"
	"strings"
)

// volume is a volume of the driver, by either door.
type volume struct {
	name    string
	csi     bool
	options map[string]any
}

// volumes returns the volumes of the driver in a pod.
func (l List) volumes(pod any) (all []volume) {
	for _, v := range items(in(pod, "spec", "volumes")) {
		csi, options := in(v, "csi") != nil, in(v, "flexVolume", "options")
		if text(in(v, "flexVolume", "driver")) != l.driver && text(in(v, "csi", "driver")) != l.csi {
			continue
		}
		if csi {
			options = in(v, "csi", "volumeAttributes")
		}
		given, _ := options.(map[string]any)
		all = append(all, volume{text(in(v, "name")), csi, given})
	}
	return all
}

func (v volume) has(option string) bool { _, given := v.options[option]; return given }

// or returns an option's value, or a default if the pod does not set the option.
func (v volume) or(option, value string) string {
	if v.has(option) {
		return text(v.options[option])
	}
	return value
}

// asks tells whether the policies look at a pod at all.
func (l List) asks(pod any) bool {
	_, annotated := l.annotation(pod)
	return annotated || slices.ContainsFunc(l.volumes(pod), func(v volume) bool { return v.has("program") })
}

func (l List) annotation(pod any) (value string, given bool) {
	annotations, _ := in(pod, "metadata", "annotations").(map[string]any)
	of, given := annotations[l.csi+"/serves"]
	return text(of), given
}

// clients are the volumes that a program can serve.
func (l List) clients(pod any) []volume {
	return slices.DeleteFunc(l.volumes(pod), func(v volume) bool { return v.has("serves") })
}

// problem returns the first thing that is wrong with a volume, as the validating policy words it;
// "" for nothing.
func (l List) problem(v volume) string {
	if !v.has("program") {
		return ""
	}
	name := text(v.options["program"])
	p := l.programs[name]
	if p == nil {
		return "there is no program " + name + ". Programs: " + l.names()
	}
	options := ". Options: " + strings.Join(p.accepts, ", ")
	for _, option := range slices.Sorted(maps.Keys(v.options)) {
		if option != "program" && !slices.Contains(p.accepts, option) {
			return "program " + name + " has no option " + option + options
		}
	}
	for _, option := range p.needs {
		if !v.has(option) {
			return "program " + name + " needs option " + option + options
		}
	}
	return ""
}

// serves returns the two parts of the annotation, and what is wrong with it; "" for nothing.
func (l List) serves(pod any) (container, volume, problem string) {
	value, given := l.annotation(pod)
	if !given {
		return "", "", ""
	}
	container, volume, isPair := strings.Cut(value, "=")
	if !isPair {
		return "", "", "its value is CONTAINER=VOLUME: a container of this pod, and the volume that its program serves"
	}
	containers := append(names(in(pod, "spec", "initContainers")), names(in(pod, "spec", "containers"))...)
	var clients []string
	for _, v := range l.clients(pod) {
		if !v.has("program") {
			clients = append(clients, v.name)
		}
	}
	switch {
	case !slices.Contains(containers, container):
		problem = "this pod has no container " + container + ". Containers: " + strings.Join(containers, ", ")
	case !slices.Contains(clients, volume):
		problem = "this pod has no volume " + volume + " of " + l.driver + " without the option program. Volumes: " + strings.Join(clients, ", ")
	}
	return container, volume, problem
}

// refusals say what is wrong with what a pod asks for.
func (l List) refusals(pod any) (messages []string) {
	for _, v := range l.clients(pod) {
		if problem := l.problem(v); problem != "" {
			messages = append(messages, "Volume "+v.name+": "+problem+".")
		}
	}
	if _, _, problem := l.serves(pod); problem != "" {
		messages = append(messages, "Annotation "+l.csi+"/serves: "+problem+".")
	}
	return messages
}

// object and list are what is added to a pod.
type (
	object = map[string]any
	list   = []any
)

// add adds to a pod what the mutating policy adds, and reports whether that is anything.
func (l List) add(pod any) (added bool) {
	served := map[string]string{} // the server volume of each volume that has one
	for _, v := range l.volumes(pod) {
		if of := v.or("serves", ""); v.has("serves") && served[of] == "" {
			served[of] = v.name
		}
	}
	var servers, secrets, programs list
	for _, v := range l.clients(pod) {
		if !v.has("program") || served[v.name] != "" || l.problem(v) != "" {
			continue
		}
		p := l.programs[text(v.options["program"])]
		servers = append(servers, l.server(v))
		if p.Secret != nil && p.Secret.MountPath != "" {
			secrets = append(secrets, object{"name": v.name + "-secret",
				"secret": object{"secretName": v.or("secret", p.Secret.Name), "defaultMode": p.Secret.Mode}})
		}
		programs = append(programs, p.container(v, in(at(in(pod, "spec", "containers"), 0), "securityContext")))
	}
	container, name, problem := l.serves(pod)
	for _, v := range l.clients(pod) {
		if v.name != name || container == "" || problem != "" {
			continue
		}
		server := served[name]
		if server == "" {
			server = name + "-server"
			servers = append(servers, l.server(v))
		}
		for _, of := range slices.Concat(items(in(pod, "spec", "initContainers")), items(in(pod, "spec", "containers"))) {
			if text(in(of, "name")) == container {
				added = put(of, "volumeMounts", nil, slices.DeleteFunc(serverMounts(server), func(mount any) bool {
					return slices.ContainsFunc(items(in(of, "volumeMounts")), func(m any) bool { return in(m, "mountPath") == in(mount, "mountPath") })
				})) || added
				break
			}
		}
	}
	spec := in(pod, "spec")
	added = put(spec, "volumes", nil, append(servers, secrets...)) || added
	return put(spec, "initContainers", programs, nil) || added
}

// put puts values before and after those of a list, and reports whether there are any. What is no
// list stays: the API server refuses it.
func put(of any, key string, before, after list) bool {
	parent, _ := of.(object)
	had, isList := parent[key].(list)
	if len(before)+len(after) == 0 || parent[key] != nil && !isList {
		return false
	}
	parent[key] = slices.Concat(before, had, after)
	return true
}

// server is the server volume of a volume.
func (l List) server(v volume) object {
	name := v.name + "-server"
	if v.csi {
		return object{"name": name, "csi": object{"driver": l.csi, "volumeAttributes": object{"serves": v.name}}}
	}
	return object{"name": name, "flexVolume": object{"driver": l.driver, "options": object{"serves": v.name}}}
}

// serverMounts are the mounts of a server volume.
func serverMounts(server string) list {
	return list{
		object{"name": server, "mountPath": "/run/pod-fuse", "readOnly": true},
		object{"name": server, "mountPath": "/dev/fuse", "subPath": "fuse", "readOnly": true},
		object{"name": server, "mountPath": "/usr/bin/fusermount3", "subPath": "fusermount3", "readOnly": true},
		object{"name": server, "mountPath": "/usr/bin/fusermount", "subPath": "fusermount", "readOnly": true},
	}
}

// container is the sidecar of a volume. user is the security context of the pod's first container.
func (p *program) container(v volume, user any) object {
	const launcher = "/run/pod-fuse/pod-fuse"
	variable := func(name, value string) object { return object{"name": name, "value": value} }
	var env list
	for _, option := range p.Options {
		if v.has(option) {
			// The kubelet makes $ of $$, and expands nothing there.
			env = append(env, variable(option, strings.ReplaceAll(v.or(option, ""), "$", "$$")))
		}
	}
	if p.mountPoint {
		env = append(env, variable("mountpoint", "/run/pod-fuse/mnt"))
	}
	for _, name := range p.variables {
		if !slices.Contains(p.Options, name) || !v.has(name) {
			env = append(env, variable(name, p.Env[name]))
		}
	}
	security := object{"allowPrivilegeEscalation": false, "capabilities": object{"drop": list{"ALL"}}, "seccompProfile": object{"type": "RuntimeDefault"}}
	for _, key := range []string{"runAsUser", "runAsGroup", "runAsNonRoot"} {
		if value := in(user, key); value != nil {
			security[key] = value
		}
	}
	mounts := serverMounts(v.name + "-server")
	c := object{
		"name": v.name + "-program", "image": p.Image, "restartPolicy": "Always", "securityContext": security,
		"command":      append([]string{launcher, "run", "--restart", "--"}, p.Command...),
		"startupProbe": object{"exec": object{"command": list{launcher, "ready"}}, "timeoutSeconds": 10, "periodSeconds": 1, "failureThreshold": 30},
	}
	if len(env) > 0 {
		c["env"] = env
	}
	if p.Secret != nil && p.Secret.MountPath == "" {
		c["envFrom"] = list{object{"secretRef": object{"name": v.or("secret", p.Secret.Name)}}}
	} else if p.Secret != nil {
		mounts = append(mounts, object{"name": v.name + "-secret", "mountPath": p.Secret.MountPath, "readOnly": true})
	}
	if p.Source != nil {
		mount := object{"name": v.or("source", ""), "mountPath": p.Source.MountPath}
		if p.Source.ReadOnly {
			mount["readOnly"] = true
		}
		mounts = append(mounts, mount)
	}
	if len(p.Resources) > 0 {
		c["resources"] = p.Resources
	}
	c["volumeMounts"] = mounts
	return c
}

// in returns what an object has at a path of keys; nil for nothing.
func in(of any, keys ...string) any {
	for _, key := range keys {
		object, _ := of.(map[string]any)
		of = object[key]
	}
	return of
}

// at returns an element of a list; nil for none.
func at(list any, i int) any {
	if all := items(list); i < len(all) {
		return all[i]
	}
	return nil
}

func items(list any) []any { all, _ := list.([]any); return all }

func text(of any) string { s, _ := of.(string); return s }

func names(list any) (all []string) {
	for _, of := range items(list) {
		all = append(all, text(in(of, "name")))
	}
	return all
}
