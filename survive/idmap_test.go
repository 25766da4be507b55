package survive_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/internal/proc"
	"example.com/pod-info-fuse/internal/testnode"
)

// The container runtime does this with the volumes of a pod with
// hostUsers: false.
func TestAVolumeCanBeIDMapped(t *testing.T) {
	dir := testnode.Install(t).Mount()
	holder := startInUserNamespace(t, 0)
	users, err := os.Open(fmt.Sprintf("/proc/%d/ns/user", holder.PID))
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
	if err := unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH, &attr); errors.Is(err, unix.EINVAL) && testnode.KernelBefore(t, 6, 12) {
		return // FUSE cannot be id-mapped before Linux 6.12
	} else if err != nil {
		t.Fatalf("mount_setattr: %v", err)
	}
	target := t.TempDir()
	if err := unix.MoveMount(tree, "", unix.AT_FDCWD, target, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		t.Fatal(err)
	}
	defer unix.Unmount(target, unix.MNT_DETACH)
	for name, want := range map[string]string{"pod.uid": testnode.PodUID + "\n", "pod": fmt.Sprintln(os.Getpid())} {
		if got := testnode.Read(t, target, name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	var stat unix.Stat_t
	if err := unix.Stat(target, &stat); err != nil || stat.Uid == 0 {
		t.Errorf("owner %d, %v; want one that the map makes of 0", stat.Uid, err)
	}
}

// The container runtime makes mounts read-only, or id-maps them, as the pod wants it. What takes
// their place must be the same; but nothing in it can be executed or trusted, where the runtime had
// cleared these flags of the node's mount.
func TestWhatIsHealedIsAsItWas(t *testing.T) {
	d := testnode.Install(t)
	dir := d.Mount()
	container := startContainer(t, dir)
	inside := func(script string) {
		t.Helper()
		command := exec.Command("nsenter", "--target", fmt.Sprint(container.PID), "--mount", "--", "sh", "-c", script)
		if output, err := command.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", script, err, output)
		}
	}
	inside("mount -o remount,bind,rw /volume && mount -o remount,bind,ro /subpath")

	// Another one, in a user namespace.
	holder := startInUserNamespace(t, syscall.CLONE_NEWNS)
	mapped := t.TempDir()
	withIDMap := idMapInside(t, dir, mapped, holder.PID)

	flags := func() string {
		return mountFlags(d, container.PID, "/volume", "/subpath") + mountFlags(d, holder.PID, mapped)
	}
	before := flags()
	d.KillPair()
	d.Must("init")
	after := flags()
	if strings.ReplaceAll(after, "nosuid,nodev,noexec,", "") != strings.ReplaceAll(before, "nosuid,nodev,noexec,", "") {
		t.Errorf("the mounts were\n%sand are\n%s", before, after)
	}
	if !strings.Contains(before, "/volume rw,") || !strings.Contains(before, "/subpath ro,") || withIDMap != strings.Contains(before, "idmapped") {
		t.Errorf("the mounts were\n%s", before)
	}
	if !withIDMap {
		return
	}
	var stat unix.Stat_t
	if err := unix.Stat(fmt.Sprintf("/proc/%d/root%s/pod.uid", holder.PID, mapped), &stat); err != nil || stat.Uid != 100000 {
		t.Errorf("the owner in the id-mapped mount is %d, %v; want 100000", stat.Uid, err)
	}
}

// mountFlags lists the driver's mounts on some paths in the mount namespace of a process,
// with their flags.
func mountFlags(d testnode.Driver, pid int, paths ...string) string {
	var list []string
	for line := range strings.Lines(testnode.Read(d.T, fmt.Sprintf("/proc/%d/mountinfo", pid))) {
		if fields := strings.Fields(line); strings.Contains(line, " fuse.pod-info-fuse "+d.Name+" ") && slices.Contains(paths, fields[4]) {
			list = append(list, fields[4]+" "+fields[5]+"\n")
		}
	}
	slices.Sort(list)
	return strings.Join(list, "")
}

// idMapInside binds a volume in the namespaces of a process, id-mapped as that is. It
// reports false where the kernel cannot id-map FUSE, and then binds it as it is.
func idMapInside(t *testing.T, volume, at string, pid int) bool {
	t.Helper()
	users, err := os.Open(fmt.Sprintf("/proc/%d/ns/user", pid))
	if err != nil {
		t.Fatal(err)
	}
	defer users.Close()
	mounts, err := os.Open(fmt.Sprintf("/proc/%d/ns/mnt", pid))
	if err != nil {
		t.Fatal(err)
	}
	defer mounts.Close()
	tree, err := unix.OpenTree(unix.AT_FDCWD, volume, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(tree)
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_IDMAP, Userns_fd: uint64(users.Fd())}
	err = unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH, &attr)
	if err != nil && !testnode.KernelBefore(t, 6, 12) {
		t.Fatalf("mount_setattr: %v", err)
	}
	moveErr := proc.OnThread(func() error {
		return errors.Join(unix.Setns(int(mounts.Fd()), unix.CLONE_NEWNS),
			unix.MoveMount(tree, "", unix.AT_FDCWD, at, unix.MOVE_MOUNT_F_EMPTY_PATH))
	})
	if moveErr != nil {
		t.Fatal(moveErr)
	}
	return err == nil
}
