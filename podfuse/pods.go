package podfuse

import (
	"bytes"
	"strings"

	"example.com/pod-info-fuse/survive/volume"
)

// MostCgroup is how much is read of a file /proc/PID/cgroup, in bytes: of cgroup v1, there is a
// line for each of a dozen hierarchies.
const MostCgroup = 64 << 10

// Pods returns the UIDs of the pod that a file /proc/PID/cgroup names, without dashes: one for each
// hierarchy that knows it. The kubelet names a pod's cgroup podUID, and with systemd's names
// ...-podUID.slice, with underscores for dashes (kubernetes v1.34,
// pkg/kubelet/cm/pod_container_manager_linux.go, GetPodContainerName, and cgroup_manager_linux.go,
// ToSystemd). The outermost one counts: below it, a container may make others.
func Pods(cgroups []byte) (uids []string) {
	if !bytes.Contains(cgroups, []byte("pod")) { // of nearly all
		return nil
	}
	for line := range bytes.Lines(cgroups) {
		_, rest, _ := bytes.Cut(line, []byte(":"))
		_, path, _ := bytes.Cut(rest, []byte(":"))
		if _, uid := PodGroup(string(bytes.TrimSpace(path))); uid != "" {
			uids = append(uids, uid)
		}
	}
	return uids
}

// PodGroup returns the path of the pod's cgroup that a cgroup is, or is below, and the pod's UID
// without dashes; "" and "" if there is none.
func PodGroup(path string) (group, uid string) {
	for at := 0; at < len(path); {
		part, _, _ := strings.Cut(path[at:], "/")
		at += len(part)
		if uid := podOf(part); uid != "" {
			return path[:at], uid
		}
		at++
	}
	return "", ""
}

func podOf(part string) string {
	name, isSlice := strings.CutSuffix(part, ".slice")
	if isSlice {
		name = name[strings.LastIndexByte(name, '-')+1:]
		name = strings.ReplaceAll(name, "_", "-")
	}
	if uid, is := strings.CutPrefix(name, "pod"); is && volume.IsUID(uid) {
		return PlainUID(uid)
	}
	return ""
}

// PlainUID is a UID without dashes and in lower case, so that UIDs can be compared.
func PlainUID(uid string) string { return strings.ToLower(strings.ReplaceAll(uid, "-", "")) }
