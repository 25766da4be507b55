package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
)

// volumeOf is the directory where the kubelet wants the volume of a pod.
func (d *driver) volumeOf(uid string) string {
	return filepath.Join(d.root, "pods", uid, "volumes", filepath.Base(filepath.Dir(d.binary)), "pod-info")
}

// podOf is the UID of the pod that a volume is of.
func podOf(volume string) string {
	_, below, _ := strings.Cut(volume, "/pods/")
	pod, _, _ := strings.Cut(below, "/")
	return pod
}

// mount mounts a volume, in a directory that the kubelet makes for that.
func (d *driver) mount(volume string) error {
	if err := os.MkdirAll(volume, 0o750); err != nil {
		return err
	}
	options, err := json.Marshal(map[string]string{
		"kubernetes.io/pod.uid":       podOf(volume),
		"kubernetes.io/pod.name":      "chaos",
		"kubernetes.io/pod.namespace": "default",
	})
	if err != nil {
		return err
	}
	return d.callOut("mount", volume, string(options))
}

// unmount unmounts a volume, and removes the pod's directories as the kubelet
// does: if they are empty.
func (d *driver) unmount(volume string) error {
	if err := d.callOut("unmount", volume); err != nil {
		return err
	}
	return removePod(volume)
}

// removePod removes a volume's directory, and those of its pod above.
func removePod(volume string) error {
	for dir := volume; filepath.Base(dir) != "pods"; dir = filepath.Dir(dir) {
		if err := os.Remove(dir); err != nil {
			return err
		}
	}
	return nil
}
