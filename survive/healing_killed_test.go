package survive_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
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

// A healing that has too few descriptors to look at all containers says so, and forgets nothing
// that the next one is to heal.
func TestAHealingThatIsShortOfDescriptors(t *testing.T) {
	d := testnode.Install(t)
	dir := d.Mount()
	containers := make([]container, 8)
	for i := range containers {
		containers[i] = startContainer(t, dir)
	}
	short := 0
	for round := 0; short == 0 && round < 20; round++ {
		leaveDead(t, d, containers)
		const least, enough = 8, 100 // a program begins with 8
		for try, healed := 0, 0; healed < len(containers); try++ {
			most := least + try/2
			if most > enough {
				t.Fatalf("with %d descriptors, %d containers are healed", enough, healed)
			}
			args := d.Command("restore").Args
			limited := d.Execute(append([]string{"prlimit", fmt.Sprintf("--nofile=%d:%[1]d", most)}, args...))
			output, err := limited.CombinedOutput()
			healed = 0
			for _, c := range containers {
				if c.isHealed() {
					healed++
				}
			}
			if strings.Contains(string(output), "other mount namespaces: look at all of them: ") {
				short++
			} else if healed < len(containers) && err == nil {
				t.Errorf("with %d descriptors, %d containers are healed, and nothing says so: %s", most, healed, output)
			}
		}
	}
	t.Logf("%d times there were too few descriptors to look at all containers", short)
	if short == 0 {
		t.Error("that was not tried")
	}
}

func (c container) isHealed() bool { return c.read("volume/pod.uid") == testnode.PodUID }

// leaveDead has a new daemon serve, and containers not healed: whoever is called next has nothing
// else to do.
func leaveDead(t *testing.T, d testnode.Driver, containers []container) {
	t.Helper()
	for _, c := range containers {
		namespace, err := os.Open(fmt.Sprintf("/proc/%d/ns/mnt", c.PID))
		if err != nil {
			t.Fatal(err)
		}
		defer namespace.Close()
		if err := unix.Flock(int(namespace.Fd()), unix.LOCK_EX); err != nil {
			t.Fatal(err)
		}
	}
	d.KillPair()
	d.Must("init")
	if slices.ContainsFunc(containers, container.isHealed) {
		t.Fatal("a container is healed whose namespace was locked")
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
