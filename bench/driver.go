package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// driver is an installation of the driver, below one directory, as a kubelet has it.
type driver struct {
	root, binary, name string
}

func install(root, binary string) (*driver, error) {
	vendor := filepath.Base(root) + ".example.com"
	d := &driver{
		root:   root,
		name:   vendor + "/pod-info-fuse",
		binary: filepath.Join(root, "plugins", vendor+"~pod-info-fuse", "pod-info-fuse"),
	}
	content, err := os.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	err = errors.Join(os.MkdirAll(filepath.Dir(d.binary), 0o755), os.WriteFile(d.binary, content, 0o755))
	return d, err
}

// uidOf is the UID of a pod. Every pod has one volume.
func uidOf(pod int) string { return fmt.Sprintf("%08x-0000-4000-8000-000000000000", pod) }

// volumeOf is where the kubelet wants the volume of a pod.
func (d *driver) volumeOf(pod int) string {
	return filepath.Join(d.root, "pods", uidOf(pod), "volumes", filepath.Base(filepath.Dir(d.binary)), "pod-info")
}

// mount calls mount for a pod, and makes the directory before, as the kubelet does.
func (d *driver) mount(pod int) (cost, error) {
	dir := d.volumeOf(pod)
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return cost{}, err
	}
	options := fmt.Sprintf(`{"kubernetes.io/fsType":"","kubernetes.io/mounterArgs.FsGroup":"","kubernetes.io/pod.name":"bench",`+
		`"kubernetes.io/pod.namespace":"default","kubernetes.io/pod.uid":%q,"kubernetes.io/pvOrVolumeName":"pod-info",`+
		`"kubernetes.io/readwrite":"rw","kubernetes.io/serviceAccount.name":"default"}`, uidOf(pod))
	return d.callOut("mount", dir, options)
}

func (d *driver) unmount(pod int) (cost, error) { return d.callOut("unmount", d.volumeOf(pod)) }

// callOut calls the driver as the kubelet does.
func (d *driver) callOut(args ...string) (cost, error) {
	c, output, err := timed(d.binary, args...)
	if err != nil {
		return c, err
	}
	var answer struct{ Status, Message string }
	if err := json.Unmarshal(output, &answer); err != nil || answer.Status != "Success" {
		return c, fmt.Errorf("the answer to %s is %q", args[0], output)
	}
	return c, nil
}
