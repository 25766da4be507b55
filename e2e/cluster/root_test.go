//go:build cluster

package cluster

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// memory are the directories where a machine without Kubernetes has nothing, this
// one or not.
var memory = []string{"/run", kubeletDir, "/var/log/pods", "/var/log/containers"}

// Two directories of the machine: the first has what was written into its root
// directory, the second what was there before.
const (
	written  = "/run/written"
	original = "/run/original"
)

// wholeProc has nothing mounted below it, as keepSysctls has below /proc. Where a mount namespace
// has no such one, a pod with users of its own may not have one either (man 7 user_namespaces).
const wholeProc = "/run/proc"

// enterRoot makes the machine's root directory in dir, and makes it the root
// directory.
func enterRoot(dir string) error {
	source, err := filepath.Abs("../..")
	if err != nil {
		return err
	}
	here, err := os.Getwd()
	if err != nil {
		return err
	}
	m := &mounter{}
	m.mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
	m.mount("tmpfs", dir, "tmpfs", 0, "")
	upper, work, root := filepath.Join(dir, "upper"), filepath.Join(dir, "work"), filepath.Join(dir, "root")
	for _, dir := range []string{upper, work} {
		m.mkdir(dir)
	}
	m.mount("overlay", root, "overlay", 0, fmt.Sprintf("lowerdir=/,upperdir=%s,workdir=%s", upper, work))
	for _, dir := range []string{"/sys", "/dev", source} {
		m.mount(dir, root+dir, "", unix.MS_BIND|unix.MS_REC, "")
	}
	for _, dir := range memory {
		m.mount("tmpfs", root+dir, "tmpfs", 0, "mode=755")
	}
	for _, dir := range []string{"/proc", wholeProc} {
		m.mount("proc", root+dir, "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "")
	}
	m.mount(upper, root+written, "", unix.MS_BIND, "")
	m.mount("/", root+original, "", unix.MS_BIND, "")
	if m.err == nil {
		m.err = changeRoot(root)
	}
	// Pods see what is mounted later, as on a machine with systemd.
	m.mount("", "/", "", unix.MS_REC|unix.MS_SHARED, "")
	if m.err != nil {
		return m.err
	}
	return os.Chdir(here)
}

// changeRoot is what the notes of pivot_root(2) call for without a directory for
// the old root.
func changeRoot(root string) error {
	if err := os.Chdir(root); err != nil {
		return err
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("change the root directory: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("unmount the old root directory: %w", err)
	}
	return nil
}

// A mounter does nothing after its first error.
type mounter struct{ err error }

func (m *mounter) mkdir(dir string) {
	if m.err == nil {
		m.err = os.MkdirAll(dir, 0o755)
	}
}

func (m *mounter) mount(source, target, fstype string, flags uintptr, data string) {
	m.mkdir(target)
	if m.err != nil {
		return
	}
	if err := unix.Mount(source, target, fstype, flags, data); err != nil {
		m.err = fmt.Errorf("mount %s on %s: %w", source, target, err)
	}
}
