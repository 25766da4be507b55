package volume

import (
	"path/filepath"
	"strings"

	"example.com/pod-info-fuse/survive/internal/mount"
)

// SplitDir splits a directory that the kubelet made for a volume,
// ROOT/pods/UID/volumes/PLUGIN/NAME (kubernetes v1.34,
// pkg/kubelet/kubelet_getters.go, getPodVolumeDir), into ROOT/pods and the rest,
// which begins with the pod's UID. No pod's author has a say in it. It reports
// false for a directory of another form.
func SplitDir(dir string) (pods, rest string, ok bool) {
	parts := strings.Split(dir, "/")
	at := len(parts) - len([]string{"pods", "UID", "volumes", "PLUGIN", "NAME"})
	if at < 1 || parts[at] != "pods" || parts[at+2] != "volumes" {
		return "", "", false
	}
	return strings.Join(parts[:at+1], "/"), strings.Join(parts[at+1:], "/"), true
}

// OpenDir opens the directory of a volume. The kubelet's root may be a link, but
// not what the kubelet makes in it.
func OpenDir(dir string) (*mount.Point, error) {
	if pods, rest, ok := SplitDir(filepath.Clean(dir)); ok {
		return mount.OpenBelow(pods, rest)
	}
	return mount.Open(dir)
}
