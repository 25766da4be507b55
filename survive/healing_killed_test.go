package survive_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/internal/testnode"
)

func TestAHealingThatIsKilledIsFinishedByTheNextInit(t *testing.T) {
	if testnode.KernelBefore(t, 6, 5) {
		t.Skip("a volume can get lost between two system calls")
	}
	d := testnode.Install(t)
	dirs := []string{d.Mount(), d.Mount(), d.Mount()}
	container := startContainer(t, dirs[0])
	for delay := range 16 {
		d.KillPair()
		killed := d.Command("init")
		if err := killed.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(2*delay) * time.Millisecond)
		_ = killed.Process.Kill()
		_ = killed.Wait()
		d.Must("init")
		for _, dir := range dirs {
			if got := testnode.Read(t, dir, "pod.uid"); got != testnode.PodUID+"\n" {
				t.Errorf("killed after %d ms: pod.uid is %q", 2*delay, got)
			}
		}
		if got := container.read("volume/pod.uid"); got != testnode.PodUID {
			t.Errorf("killed after %d ms: in the container: %q", 2*delay, got)
		}
	}
}

// Whoever has too few descriptors to look at all containers says so, and forgets nothing that the
// next one is to heal.
func TestAHealingThatIsShortOfDescriptors(t *testing.T) {
	d := testnode.Install(t)
	dir := d.Mount()
	containers := make([]container, 8)
	for i := range containers {
		containers[i] = startContainer(t, dir)
	}
	areHealed := func() bool {
		return !slices.ContainsFunc(containers, func(c container) bool { return c.read("volume/pod.uid") != testnode.PodUID })
	}
	healed, short := 0, 0
	const least, enough, step = 20, 56, 4 // a call-out needs most of them for itself
	for round := 0; step*round <= enough-least || short == 0 && round < 500; round++ {
		most := least + step*round%(enough-least+1)
		d.KillPair()
		args := d.Command("restore").Args
		limited := d.Execute(append([]string{"prlimit", fmt.Sprintf("--nofile=%d:%[1]d", most)}, args...))
		output, _ := limited.CombinedOutput()
		switch said := string(output); {
		case areHealed():
			healed++
		case strings.Contains(said, "other mount namespaces: look at all of them: "):
			short++
		case limited.ProcessState.ExitCode() == 0:
			t.Errorf("with %d descriptors, not all are healed, and nothing says so: %s", most, said)
		}
		for _, pid := range testnode.DaemonsOf(d) { // they have as few
			number, _ := strconv.Atoi(pid)
			testnode.Kill(t, number)
		}
		d.Must("init")
		if !areHealed() {
			t.Errorf("after a healing with %d descriptors, and another one, not all are healed", most)
		}
	}
	t.Logf("%d times all were healed, %d times there were too few descriptors", healed, short)
	if healed == 0 || short == 0 {
		t.Error("one of them was not tried")
	}
}

// The moment in which all is as here is short: the next daemon serves, and nothing is
// healed yet.
func TestInitHealsWhatIsKeptAsDead(t *testing.T) {
	d := testnode.Install(t)
	dir := d.Mount()
	kept, err := unix.OpenTree(unix.AT_FDCWD, dir, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(kept)
	dead, err := unix.OpenTree(unix.AT_FDCWD, dir, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(dead)
	number := deviceOf(t, dir)
	d.KillPair()
	d.Must("init")
	if _, err := os.Lstat(d.RunDir + "/dead"); err == nil {
		t.Fatal("something is kept as dead when all is healed")
	}
	if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
		t.Fatal(err)
	}
	at := filepath.Join(d.RunDir, "dead", fmt.Sprint(number))
	if err := errors.Join(
		os.MkdirAll(at, 0o700), unix.MoveMount(kept, "", unix.AT_FDCWD, at, unix.MOVE_MOUNT_F_EMPTY_PATH),
		unix.MoveMount(dead, "", unix.AT_FDCWD, dir, unix.MOVE_MOUNT_F_EMPTY_PATH),
	); err != nil {
		t.Fatal(err)
	}
	if s := d.Status(); s.Mount.State != "ok" || s.Volumes[0].State != "dead" {
		t.Fatalf("status: %+v", s)
	}
	d.Must("init")
	if got := testnode.Read(t, dir, "pod.uid"); got != testnode.PodUID+"\n" {
		t.Errorf("pod.uid is %q", got)
	}
	if _, err := os.Lstat(d.RunDir + "/dead"); err == nil {
		t.Error("it is still kept as dead")
	}
}

// deviceOf returns the number of the file system on a directory, of which nobody is asked.
func deviceOf(t *testing.T, path string) uint64 {
	t.Helper()
	var stat unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, path, unix.AT_STATX_DONT_SYNC|unix.AT_SYMLINK_NOFOLLOW, unix.STATX_TYPE, &stat); err != nil {
		t.Fatal(err)
	}
	return unix.Mkdev(stat.Dev_major, stat.Dev_minor)
}
