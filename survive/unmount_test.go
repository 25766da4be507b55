package survive_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/e2e/stopwatch"
	"example.com/pod-info-fuse/internal/testnode"
)

func TestUnmount(t *testing.T) {
	d := testnode.Install(t)
	dir := d.Mount()
	d.Must("unmount", dir)
	testnode.Gone(t, d, dir)
	d.Must("unmount", dir) // now there is no such directory
}

func TestUnmountOfWhatWasNeverMounted(t *testing.T) {
	d := testnode.Install(t)
	dir := t.TempDir()
	d.Must("unmount", dir)
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	d.Must("unmount", file)
	d.Must("unmount", filepath.Join(file, "below"))
	if _, err := os.Stat(file); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(d.RunDir); !os.IsNotExist(err) {
		t.Errorf("unmount made %s: %v", d.RunDir, err)
	}
	link := filepath.Join(dir, "link")
	volume := d.Mount()
	if err := os.Symlink(volume, link); err != nil {
		t.Fatal(err)
	}
	d.Must("unmount", link)
	if testnode.MountsOn(t, volume) != 1 {
		t.Error("unmount followed a symbolic link")
	}
}

func TestUnmountLeavesOthersMountsAlone(t *testing.T) {
	d := testnode.Install(t)
	for _, dir := range []string{d.Mount(), t.TempDir()} {
		if err := unix.Mount("something", dir, "tmpfs", 0, ""); err != nil {
			t.Fatal(err)
		}
		defer unix.Unmount(dir, unix.MNT_DETACH)
		before := testnode.MountsOn(t, dir)
		if a := d.Call("unmount", dir); a.Status != "Failure" || !strings.Contains(a.Message, "something else") || !strings.Contains(a.Message, dir) {
			t.Errorf("unmount: %+v", a)
		}
		if after := testnode.MountsOn(t, dir); after != before || len(d.Records()) != 1 {
			t.Errorf("%d mounts, before %d; records %q", after, before, d.Records())
		}
	}
}

func TestUnmountLeavesAnotherDriversVolumeAlone(t *testing.T) {
	ours, other := testnode.Install(t), testnode.Install(t)
	dir := other.Mount()
	if a := ours.Call("unmount", dir); a.Status != "Failure" {
		t.Errorf("unmount: %+v", a)
	}
	if got := testnode.Read(t, dir, "pod.uid"); got != testnode.PodUID+"\n" {
		t.Errorf("pod.uid is %q", got)
	}
}

func TestUnmountOfStackedMounts(t *testing.T) {
	d := testnode.Install(t)
	dir := d.Mount()
	for range 3 {
		if err := unix.Mount(dir, dir, "", unix.MS_BIND, ""); err != nil {
			t.Fatal(err)
		}
	}
	d.Must("unmount", dir)
	testnode.Gone(t, d, dir)
}

func TestUnmountOfABusyVolume(t *testing.T) {
	d := testnode.Install(t)
	dir := d.Mount()
	user := exec.Command("sh", "-c", "read pid < pod; echo ready; read line; read pid < pod; echo $pid $$")
	user.Dir = dir
	testnode.Started(t, user)
	d.Must("unmount", dir)
	testnode.Gone(t, d, dir)
}

func TestUnmountOfADeadVolume(t *testing.T) {
	d := testnode.Install(t)
	dir := d.Mount()
	d.KillPair()
	_, err := os.ReadFile(filepath.Join(dir, "pod.uid"))
	if !errors.Is(err, unix.ENOTCONN) && !errors.Is(err, unix.ECONNABORTED) {
		t.Fatalf("the volume is not dead: %v", err)
	}
	if s := d.Status(); s.Mount.State != "dead" || s.Daemon.Active != nil || s.Volumes[0].State != "dead" {
		t.Errorf("status: %+v", s)
	}
	d.Must("unmount", dir)
	testnode.Gone(t, d, dir)
}

func TestUnmountDoesNotWaitForAHungDaemon(t *testing.T) {
	d := testnode.Install(t)
	dir := d.Mount()
	d.StopPair()
	if s := d.Status(); s.Mount.State != "ok" || len(s.Volumes) != 1 {
		t.Errorf("status: %+v", s)
	}
	watch := stopwatch.Start()
	d.Must("unmount", dir)
	// Others abort the connection after ten seconds.
	if took, late := watch.Stop(); took > 5*time.Second {
		t.Errorf("unmount took %v, and %v in which the machine was late", took, late)
	}
	testnode.Gone(t, d, dir)
}
