package main_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// The container runtime does this with the volumes of a pod with
// hostUsers: false.
func TestAVolumeCanBeIDMapped(t *testing.T) {
	dir := install(t).mount()
	holder := exec.Command("sh", "-c", "echo; read line")
	ids := []syscall.SysProcIDMap{{ContainerID: 0, HostID: 100000, Size: 65536}}
	holder.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER, UidMappings: ids, GidMappings: ids}
	stdin, err := holder.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := holder.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := holder.Start(); err != nil {
		t.Fatal(err)
	}
	defer holder.Wait()
	defer stdin.Close()
	if _, err := stdout.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	users, err := os.Open(fmt.Sprintf("/proc/%d/ns/user", holder.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	defer users.Close()
	tree, err := unix.OpenTree(unix.AT_FDCWD, dir, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(tree)
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_IDMAP, Userns_fd: uint64(users.Fd())}
	if err := unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH, &attr); errors.Is(err, unix.EINVAL) && kernelBefore(t, 6, 12) {
		return // FUSE cannot be id-mapped before Linux 6.12
	} else if err != nil {
		t.Fatalf("mount_setattr: %v", err)
	}
	target := t.TempDir()
	if err := unix.MoveMount(tree, "", unix.AT_FDCWD, target, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		t.Fatal(err)
	}
	defer unix.Unmount(target, unix.MNT_DETACH)
	for name, want := range map[string]string{"pod.uid": podUID + "\n", "pod": fmt.Sprintln(os.Getpid())} {
		if got := read(t, target, name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	var stat unix.Stat_t
	if err := unix.Stat(target, &stat); err != nil || stat.Uid == 0 {
		t.Errorf("owner %d, %v; want one that the map makes of 0", stat.Uid, err)
	}
}

// kernelBefore tells whether the running kernel is older than a version.
func kernelBefore(t *testing.T, wantMajor, wantMinor int) bool {
	t.Helper()
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		t.Fatal(err)
	}
	var major, minor int
	if _, err := fmt.Sscanf(unix.ByteSliceToString(name.Release[:]), "%d.%d", &major, &minor); err != nil {
		t.Fatal(err)
	}
	return major < wantMajor || major == wantMajor && minor < wantMinor
}
