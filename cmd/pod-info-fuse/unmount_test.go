package main_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/e2e/stopwatch"
	"example.com/pod-info-fuse/survive/volume"
)

// gone checks that nothing of a volume is left: the kubelet can remove the
// directory with rmdir, as it does, and then that of the pod, if it is in one.
func gone(t *testing.T, d installed, dir string) {
	t.Helper()
	if count := mountsOn(t, dir); count != 0 {
		t.Errorf("%d mounts left on %s", count, dir)
	}
	if err := os.Remove(dir); err != nil {
		t.Errorf("the kubelet's rmdir: %v", err)
	}
	if pods, rest, ok := volume.SplitDir(dir); ok {
		uid, _, _ := strings.Cut(rest, "/")
		d.podGoes(filepath.Join(pods, uid))
		d.must("init")
	}
	if left := d.records(); len(left) != 0 {
		t.Errorf("records left: %q", left)
	}
}

func TestUnmount(t *testing.T) {
	d := install(t)
	dir := d.mount()
	d.must("unmount", dir)
	gone(t, d, dir)
	d.must("unmount", dir) // now there is no such directory
}

func TestUnmountOfWhatWasNeverMounted(t *testing.T) {
	d := install(t)
	dir := t.TempDir()
	d.must("unmount", dir)
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	d.must("unmount", file)
	d.must("unmount", filepath.Join(file, "below"))
	if _, err := os.Stat(file); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(d.runDir); !os.IsNotExist(err) {
		t.Errorf("unmount made %s: %v", d.runDir, err)
	}
	link := filepath.Join(dir, "link")
	volume := d.mount()
	if err := os.Symlink(volume, link); err != nil {
		t.Fatal(err)
	}
	d.must("unmount", link)
	if mountsOn(t, volume) != 1 {
		t.Error("unmount followed a symbolic link")
	}
}

func TestUnmountLeavesOthersMountsAlone(t *testing.T) {
	d := install(t)
	d.mount()
	dir := t.TempDir()
	if err := unix.Mount("something", dir, "tmpfs", 0, ""); err != nil {
		t.Fatal(err)
	}
	defer unix.Unmount(dir, unix.MNT_DETACH)
	if a := d.call("unmount", dir); a.Status != "Failure" || !strings.Contains(a.Message, "something else") || !strings.Contains(a.Message, dir) {
		t.Errorf("unmount: %+v", a)
	}
	if mountsOn(t, dir) != 1 {
		t.Error("the other mount is gone")
	}
}

func TestUnmountLeavesAnotherDriversVolumeAlone(t *testing.T) {
	ours, other := install(t), install(t)
	dir := other.mount()
	if a := ours.call("unmount", dir); a.Status != "Failure" {
		t.Errorf("unmount: %+v", a)
	}
	if got := read(t, dir, "pod.uid"); got != podUID+"\n" {
		t.Errorf("pod.uid is %q", got)
	}
}

func TestUnmountOfStackedMounts(t *testing.T) {
	d := install(t)
	dir := d.mount()
	for range 3 {
		if err := unix.Mount(dir, dir, "", unix.MS_BIND, ""); err != nil {
			t.Fatal(err)
		}
	}
	d.must("unmount", dir)
	gone(t, d, dir)
}

func TestUnmountOfABusyVolume(t *testing.T) {
	d := install(t)
	dir := d.mount()
	user := exec.Command("sh", "-c", "read pid < pod; echo ready; read line; read pid < pod; echo $pid $$")
	user.Dir = dir
	started(t, user)
	d.must("unmount", dir)
	gone(t, d, dir)
}

func TestUnmountOfADeadVolume(t *testing.T) {
	d := install(t)
	dir := d.mount()
	d.killPair()
	_, err := os.ReadFile(filepath.Join(dir, "pod.uid"))
	if !errors.Is(err, unix.ENOTCONN) && !errors.Is(err, unix.ECONNABORTED) {
		t.Fatalf("the volume is not dead: %v", err)
	}
	if s := d.status(); s.Mount.State != "dead" || s.Daemon.Active != nil || s.Volumes[0].State != "dead" {
		t.Errorf("status: %+v", s)
	}
	d.must("unmount", dir)
	gone(t, d, dir)
}

func TestUnmountDoesNotWaitForAHungDaemon(t *testing.T) {
	d := install(t)
	dir := d.mount()
	d.stopPair()
	if s := d.status(); s.Mount.State != "ok" || len(s.Volumes) != 1 {
		t.Errorf("status: %+v", s)
	}
	watch := stopwatch.Start()
	d.must("unmount", dir)
	// Others abort the connection after ten seconds.
	if took, late := watch.Stop(); took > 5*time.Second {
		t.Errorf("unmount took %v, and %v in which the machine was late", took, late)
	}
	gone(t, d, dir)
}

// stopPair stops both processes, so that nobody answers or takes over.
func (d installed) stopPair() {
	d.t.Helper()
	active, standby := d.pair()
	// Its lock is what it is found by.
	eventually(d.t, "the standby has its lock", func() bool {
		return strings.Contains(read(d.t, "/proc/locks"), fmt.Sprintf(" %d ", standby))
	})
	for _, pid := range []int{standby, active} {
		suspend(d.t, pid)
	}
}

// kill kills a process that this test started, and waits until it is gone.
func kill(t *testing.T, pid int) {
	t.Helper()
	if err := unix.Kill(pid, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the process is gone", func() bool { return !alive(pid) })
}

func TestUnmountsAtOnce(t *testing.T) {
	d := install(t)
	for range 20 {
		dir := d.mount()
		var group sync.WaitGroup
		for range 2 {
			group.Go(func() {
				if a := d.call("unmount", dir); a.Status != "Success" {
					t.Errorf("%+v", a)
				}
			})
		}
		group.Wait()
		gone(t, d, dir)
	}
}
