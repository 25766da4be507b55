package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// A pod is what the kubelet makes of one: its directories, volumes, cgroup and containers.
type pod struct {
	rig        *rig
	id         string // its UID
	uid        int    // of its processes
	dir        string
	source     string // has what its program serves
	containers []*container
	subPaths   []string // mount points
}

const podCgroups = "kubepods/besteffort"

func (r *rig) newPod(uid int) (*pod, error) {
	r.pods++
	p := &pod{rig: r, id: fmt.Sprintf("9f0c%04x-7a31-4d6b-9c52-%012x", r.pods, os.Getpid()), uid: uid}
	p.dir = filepath.Join(r.root, "pods", p.id)
	p.source = filepath.Join(p.dir, "volumes", "kubernetes.io~empty-dir", "source")
	return p, os.MkdirAll(p.source, 0o755)
}

func (p *pod) cgroup() string {
	return filepath.Join("/", filepath.Base(p.rig.root), podCgroups, "pod"+p.id)
}

// volume is the directory where the kubelet wants a volume of the driver.
func (p *pod) volume(name string) string {
	return filepath.Join(p.dir, "volumes", filepath.Base(filepath.Dir(p.rig.binary)), name)
}

// mount mounts one, with the options of the pod's author.
func (p *pod) mount(name string, options map[string]string) error {
	if err := os.MkdirAll(p.volume(name), 0o750); err != nil {
		return err
	}
	all := map[string]string{
		"kubernetes.io/fsType":              "",
		"kubernetes.io/readwrite":           "rw",
		"kubernetes.io/pod.uid":             p.id,
		"kubernetes.io/pod.name":            "chaos",
		"kubernetes.io/pod.namespace":       "default",
		"kubernetes.io/pvOrVolumeName":      name,
		"kubernetes.io/serviceAccount.name": "default",
	}
	for key, value := range options {
		all[key] = value
	}
	text, err := json.Marshal(all)
	if err != nil {
		return err
	}
	return p.rig.mounting.Of(func() error { return p.rig.callOut("mount", p.volume(name), string(text)) })
}

// mountVolumes mounts the two of each pod, in either order: the kubelet promises none.
func (p *pod) mountVolumes(wait string) error {
	client := func() error { return p.mount("data", map[string]string{"wait": wait}) }
	server := func() error { return p.mount("data-server", map[string]string{"serves": "data"}) }
	if p.rig.pods%2 == 0 {
		client, server = server, client
	}
	return errors.Join(client(), server())
}

// modulesInside is where the container has the programs that no package has.
const modulesInside = "/opt"

// serverMounts are the volumes of the container with the program, as in the pod's manifest.
func (p *pod) serverMounts() []volumeMount {
	mounts := []volumeMount{
		{source: p.source, path: "/source"},
		{source: p.rig.modules, path: modulesInside, readOnly: true},
		{source: p.volume("data-server"), path: "/run/pod-fuse"},
		{source: p.volume("data-server") + "/fuse", path: "/dev/fuse"},
		{source: p.volume("data-server") + "/fusermount3", path: "/usr/bin/fusermount3"},
	}
	// Debian's mergerfs has one of its own; on Debian, fusermount is a link to fusermount3.
	if _, err := os.Stat("/usr/bin/mergerfs-fusermount"); err == nil {
		mounts = append(mounts, volumeMount{source: p.volume("data-server") + "/mergerfs-fusermount", path: "/usr/bin/mergerfs-fusermount"})
	}
	return mounts
}

// appMounts are those of the container that reads: the volume itself, a copy that is read-only,
// a directory of it, which nobody has served when it is bound, and one in another volume.
func (p *pod) appMounts() []volumeMount {
	data := p.volume("data")
	return []volumeMount{
		{source: data, path: "/data"},
		{source: data, path: "/data-ro", readOnly: true},
		{source: data, path: "/data-sub", subPath: dirName(0)},
		{source: data, path: "/tmp/outer/data"},
	}
}

// appRoots are the same for load.
const appRoots = "/data=,/data-ro=,/data-sub=dir-0,/tmp/outer/data="

// bindSubPaths binds what the volume mounts of a container have a subPath for, as the kubelet
// does (k8s.io/kubernetes/pkg/volume/util/subpath, doBindSubPath).
func (p *pod) bindSubPaths(c *container, mounts []volumeMount) error {
	for i := range mounts {
		m := &mounts[i]
		if m.subPath == "" {
			continue
		}
		fd, err := unix.Openat2(unix.AT_FDCWD, filepath.Join(m.source, m.subPath), &unix.OpenHow{
			Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS})
		if err != nil {
			return fmt.Errorf("open %s of %s: %w", m.subPath, m.source, err)
		}
		defer unix.Close(fd)
		target := filepath.Join(p.dir, "volume-subpaths", filepath.Base(m.source), c.name, fmt.Sprint(i))
		if err := os.MkdirAll(target, 0o750); err != nil {
			return err
		}
		if err := unix.Mount(fmt.Sprintf("/proc/self/fd/%d", fd), target, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
			return fmt.Errorf("bind %s of %s: %w", m.subPath, m.source, err)
		}
		p.subPaths = append(p.subPaths, target)
		m.source = target
	}
	return nil
}

// remove removes a pod as the kubelet does: its containers, its volumes, its directories.
func (p *pod) remove(volumes ...string) error {
	var all error
	for _, c := range p.containers {
		if _, err := c.kill(); err != nil {
			all = errors.Join(all, err)
		}
		_ = p.runc("delete", "--force", c.id()).Run() // mostly, it is gone
	}
	for _, target := range p.subPaths {
		if err := unix.Unmount(target, unix.MNT_DETACH); err != nil {
			all = errors.Join(all, fmt.Errorf("unmount %s: %w", target, err))
		}
	}
	for _, name := range volumes {
		if err := p.unmount(name); err != nil {
			all = errors.Join(all, err)
		}
	}
	if all != nil {
		return all
	}
	return p.rig.removeTree(p.dir)
}

// unmount unmounts a volume: nothing but an empty directory may be left.
func (p *pod) unmount(name string) error {
	if err := p.rig.unmounting.Of(func() error { return p.rig.callOut("unmount", p.volume(name)) }); err != nil {
		return err
	}
	return os.Remove(p.volume(name))
}

// runc is an execution of it. What it starts ends with this program.
func (p *pod) runc(args ...string) *exec.Cmd {
	path := "runc"
	if self, err := os.Executable(); err == nil {
		if own := filepath.Join(filepath.Dir(self), "runc"); unix.Access(own, unix.X_OK) == nil {
			path = own
		}
	}
	cmd := exec.CommandContext(context.Background(), path, append([]string{"--root", filepath.Join(p.rig.root, "runc")}, args...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is for this program
	return cmd
}
