package survive_test

import (
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/internal/testnode"
)

// lockFor takes the lock of a byte of daemon.lock so that the kernel names another process
// as its holder, which has nothing to do with it, and which is returned. That is what a
// daemon can do that was taken over: a child that shares its descriptors takes the lock,
// and ends, and somebody else gets its PID; here, it executes something else, and so does
// not share them any more. unlock releases it.
func lockFor(d testnode.Driver, b int64, words ...string) (innocent int, unlock func()) {
	d.T.Helper()
	file, err := os.OpenFile(filepath.Join(d.RunDir, "daemon.lock"), os.O_RDWR, 0)
	if err != nil {
		d.T.Fatal(err)
	}
	lock := unix.Flock_t{Type: unix.F_WRLCK, Start: b, Len: 1}
	none, args := []*byte{nil}, []*byte{}
	for _, word := range append(words, "/bin/sleep", "1000") {
		args = append(args, &append([]byte(word), 0)[0])
	}
	args = append(args, nil)
	fd := file.Fd()
	syscall.ForkLock.Lock()
	pid, _, errno := unix.RawSyscall6(unix.SYS_CLONE, unix.CLONE_FILES|uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
	if pid == 0 && errno == 0 { // the child: a copy of this thread only
		if _, _, errno := unix.RawSyscall(unix.SYS_FCNTL, fd, unix.F_SETLKW, uintptr(unsafe.Pointer(&lock))); errno == 0 {
			unix.RawSyscall(unix.SYS_EXECVE, uintptr(unsafe.Pointer(args[0])), uintptr(unsafe.Pointer(&args[0])), uintptr(unsafe.Pointer(&none[0])))
		}
		unix.RawSyscall(unix.SYS_EXIT_GROUP, 1, 0, 0)
	}
	syscall.ForkLock.Unlock()
	if errno != 0 {
		d.T.Fatal(errno)
	}
	innocent = int(pid)
	d.T.Cleanup(func() {
		_ = unix.Kill(innocent, unix.SIGKILL)
		_, _ = unix.Wait4(innocent, nil, 0, nil)
	})
	testnode.Eventually(d.T, "the innocent process is there", func() bool {
		return testnode.Read(d.T, "/proc", strconv.Itoa(innocent), "comm") == "sleep\n"
	})
	return innocent, func() { file.Close() }
}

func TestNobodyIsKilledForALockThatSomebodyElseHas(t *testing.T) {
	for lock, bytes := range map[string][]int64{"active": {0}, "standby": {1}, "both": {0, 1}} {
		for _, command := range []string{"mount", "stop"} {
			t.Run(command+" "+lock, func(t *testing.T) {
				d := testnode.Install(t)
				volume := d.Mount()
				d.KillPair()
				var innocents []int
				for _, b := range bytes {
					innocent, unlock := lockFor(d, b)
					defer unlock()
					innocents = append(innocents, innocent)
				}
				if command == "stop" {
					ends(d, "stop", "--force")
				} else {
					ends(d, "mount", t.TempDir(), testnode.Edit(testnode.PodUID, uidOf(1)))
					if got := testnode.Read(t, volume, "pod.uid"); got != testnode.PodUID+"\n" {
						t.Errorf("the volume that was dead: %q", got)
					}
					d.Pair()
				}
				for _, innocent := range innocents {
					if !testnode.Alive(innocent) {
						t.Error("an innocent process was killed")
					}
				}
			})
		}
	}
}

// A process with the daemon's user in a user namespace of its own is not the daemon's: it is
// not killed, and the node mount is not looked for in its namespace.
func TestTheDaemonIsInNoOtherUserNamespace(t *testing.T) {
	d := testnode.Install(t)
	volume := d.Mount()
	d.KillPair()
	if err := unix.Unmount(filepath.Join(d.RunDir, "fs"), unix.MNT_DETACH); err != nil {
		t.Fatal(err)
	}
	user := strconv.Itoa(int(d.User().Uid))
	innocent, unlock := lockFor(d, 0, "/usr/bin/setpriv", "--reuid", user, "--regid", user, "--clear-groups", "/usr/bin/unshare", "--user", "--mount")
	defer unlock()
	ends(d, "init")
	if got := testnode.Read(t, volume, "pod.uid"); got != testnode.PodUID+"\n" {
		t.Errorf("the volume that was dead: %q", got)
	}
	d.Pair()
	if !testnode.Alive(innocent) {
		t.Error("an innocent process was killed")
	}
}

// A process of a pod's has the daemon's user, and the PID that a lock has: the daemon is not looked
// for in its mount namespace.
func TestTheDaemonIsInNoPodsMountNamespace(t *testing.T) {
	d := testnode.Install(t)
	volume := d.Mount()
	d.KillPair()
	user := strconv.Itoa(int(d.User().Uid))
	_, unlock := lockFor(d, 0, "/usr/bin/unshare", "--mount", "/bin/sh", "-c", `umount "$0/fs" && exec "$@"`, d.RunDir,
		"/usr/bin/setpriv", "--reuid", user, "--regid", user, "--clear-groups")
	defer unlock()
	d.Must("mount", t.TempDir(), testnode.Edit(testnode.PodUID, uidOf(1)))
	if got := testnode.Read(t, volume, "pod.uid"); got != testnode.PodUID+"\n" {
		t.Errorf("the volume that was dead: %q", got)
	}
}

// The lock of a process that has died may stay with somebody: its successor serves all the
// same, and is not taken for dead.
func TestASuccessorServesWithoutTheLock(t *testing.T) {
	d := testnode.Install(t)
	l := readAtTimes(t, d.Mount())
	active, standby := d.Pair()
	testnode.Suspend(t, standby)
	testnode.Kill(t, active)
	innocent, unlock := lockFor(d, 0)
	if err := unix.Kill(standby, unix.SIGCONT); err != nil {
		t.Fatal(err)
	}
	l.goesOn()
	for _, command := range []string{"init", "restore"} {
		ends(d, command)
		if now, _ := d.Pair(); now != standby {
			t.Fatalf("after %s, process %d is active, want %d", command, now, standby)
		}
	}
	// And so is who takes over from it.
	_, next := d.Pair()
	testnode.Kill(t, standby)
	l.goesOn()
	ends(d, "init")
	if now, _ := d.Pair(); now != next {
		t.Errorf("process %d is active, want %d", now, next)
	}
	unlock()
	testnode.Eventually(t, "it has the lock, when it is free", func() bool {
		return holder(d, 0) == next && holder(d, 1) != 0 && holder(d, 1) != next
	})
	l.stop()
	if !testnode.Alive(innocent) {
		t.Error("an innocent process was killed")
	}
}

// holder is the process that has the lock of a byte of daemon.lock.
func holder(d testnode.Driver, b int64) int {
	d.T.Helper()
	file, err := os.Open(filepath.Join(d.RunDir, "daemon.lock"))
	if err != nil {
		d.T.Fatal(err)
	}
	defer file.Close()
	lock := unix.Flock_t{Type: unix.F_WRLCK, Start: b, Len: 1}
	if err := unix.FcntlFlock(file.Fd(), unix.F_GETLK, &lock); err != nil {
		d.T.Fatal(err)
	}
	if lock.Type == unix.F_UNLCK {
		return 0
	}
	return int(lock.Pid)
}

// Somebody has removed the note of the daemon's user, or damaged it: then a process of root's that
// a lock names is not taken for the daemon.
func TestNobodyIsKilledWhereTheDaemonsUserIsNotKnown(t *testing.T) {
	for _, note := range []string{"", "0", "4294967295"} {
		d := testnode.Install(t)
		d.Mount()
		d.KillPair()
		innocent, unlock := lockFor(d, 0)
		defer unlock()
		if err := os.Remove(filepath.Join(d.RunDir, "user")); err != nil {
			t.Fatal(err)
		}
		if note != "" {
			testnode.Write(t, filepath.Join(d.RunDir, "user"), note)
		}
		ends(d, "stop", "--force")
		if !testnode.Alive(innocent) {
			t.Errorf("with the note %q, a process of root's was killed", note)
		}
	}
}
