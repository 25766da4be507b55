package main_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestAHealingThatIsKilledIsFinishedByTheNextInit(t *testing.T) {
	if kernelBefore(t, 6, 5) {
		t.Skip("a volume can get lost between two system calls")
	}
	d := install(t)
	dirs := []string{d.mount(), d.mount(), d.mount()}
	container := startContainer(t, dirs[0])
	for delay := range 16 {
		d.killPair()
		killed := d.command("init")
		if err := killed.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(2*delay) * time.Millisecond)
		_ = killed.Process.Kill()
		_ = killed.Wait()
		d.must("init")
		for _, dir := range dirs {
			if got := read(t, dir, "pod.uid"); got != podUID+"\n" {
				t.Errorf("killed after %d ms: pod.uid is %q", 2*delay, got)
			}
		}
		if got := container.read("volume/pod.uid"); got != podUID {
			t.Errorf("killed after %d ms: in the container: %q", 2*delay, got)
		}
	}
}

// The moment in which nothing but the note tells is short.
func TestInitHealsWhatIsNotedAsUnhealed(t *testing.T) {
	d := install(t)
	dir := d.mount()
	dead, err := unix.OpenTree(unix.AT_FDCWD, dir, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(dead)
	d.killPair()
	d.must("init")
	note := filepath.Join(d.runDir, "unhealed")
	if _, err := os.Lstat(note); err == nil {
		t.Fatal("there is a note when all is healed")
	}
	if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
		t.Fatal(err)
	}
	if err := unix.MoveMount(dead, "", unix.AT_FDCWD, dir, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		t.Fatal(err)
	}
	if s := d.status(); s.Mount.State != "ok" || s.Volumes[0].State != "dead" {
		t.Fatalf("status: %+v", s)
	}
	write(t, note, "")
	d.must("init")
	if got := read(t, dir, "pod.uid"); got != podUID+"\n" {
		t.Errorf("pod.uid is %q", got)
	}
	if _, err := os.Lstat(note); err == nil {
		t.Error("the note is still there")
	}
}
