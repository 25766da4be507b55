package mounter

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/podfuse/wire"
)

// deviceOn is that of what is mounted on a path.
func deviceOn(t *testing.T, path string) uint64 {
	t.Helper()
	var stat unix.Stat_t
	must(t, unix.Stat(path, &stat))
	return stat.Dev
}

// forAPod binds what server volumes have in common, as for a pod.
func (w *world) forAPod() (dir string, unbind func()) {
	w.t.Helper()
	dir = w.t.TempDir()
	must(w.t, unix.Mount(w.client.Shared(), dir, "", unix.MS_BIND, ""))
	bound := true
	unbind = func() {
		if bound {
			bound = false
			must(w.t, unix.Unmount(dir, unix.MNT_DETACH)) // what this process has open there, a child of another test may have, too
		}
	}
	w.t.Cleanup(unbind)
	return dir, unbind
}

// Each version that a pod was mounted with keeps its launcher. Those that no pod has go at the next
// upgrade.
func TestLaunchersOfManyVersions(t *testing.T) {
	w := newWorld(t)
	devices := map[uint64]bool{}
	var unbind []func()
	upgrade := func(version string) (made string) {
		t.Helper()
		w.client.Version = version
		_, err := w.client.Ensure()
		must(t, err)
		text, err := os.ReadFile(filepath.Join(w.client.Launcher(), "version"))
		must(t, err)
		return string(text)
	}
	const many = 3
	for i := range many {
		version := fmt.Sprintf("2.%d", i)
		if made := upgrade(version); made != version {
			t.Errorf("the launcher is of version %s, not %s", made, version)
		}
		_, end := w.forAPod()
		unbind = append(unbind, end)
		devices[deviceOn(t, w.client.Shared())] = true
	}
	if len(devices) != many {
		t.Errorf("there are %d launchers, want %d", len(devices), many)
	}
	open := func() int { return len(w.openIn(w.now().PID, wire.Binary)) }
	if n := open(); n != many {
		t.Errorf("the mounter has %d open, want %d", n, many)
	}
	for _, end := range unbind {
		end()
	}
	upgrade("3.0")
	eventually(t, "it has those open that call-outs could have just mounted", func() bool { return open() == 1 })
}

// openIn lists the files of a name that a process has open.
func (w *world) openIn(pid int, name string) (found []string) {
	w.t.Helper()
	links, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	must(w.t, err)
	for _, link := range links {
		if file, _ := os.Readlink(link); filepath.Base(file) == name {
			found = append(found, file)
		}
	}
	return found
}

// While the mounter makes the launcher of another version, call-outs mount volumes.
func TestALauncherIsNeverSeenInPart(t *testing.T) {
	w := newWorld(t)
	launcher := filepath.Join(w.client.Shared(), wire.Binary)
	whole, err := os.Stat(launcher)
	must(t, err)
	look := func() error {
		info, err := os.Stat(launcher)
		if err == nil && (info.Size() != whole.Size() || info.Mode() != whole.Mode()) {
			err = fmt.Errorf("it has %d bytes and mode %v, want %d and %v", info.Size(), info.Mode(), whole.Size(), whole.Mode())
		}
		return err
	}
	ended, looked := make(chan struct{}), make(chan error, 1)
	go func() {
		for {
			err := look()
			select {
			case <-ended:
				looked <- err
				return
			default:
			}
			if err != nil {
				looked <- err
				return
			}
		}
	}()
	device := deviceOn(t, launcher)
	first, err := os.Open(launcher) // or the next file system may get the device's number
	must(t, err)
	defer first.Close()
	for i := range 3 {
		w.client.Version = fmt.Sprintf("2.%d", i)
		_, err := w.client.Ensure()
		must(t, err)
	}
	close(ended)
	if err := <-looked; err != nil {
		t.Errorf("while another one was made: %v", err)
	}
	if deviceOn(t, launcher) == device {
		t.Error("no other one was made")
	}
}

// The owner of a file can take a lease on it, for which others' opens wait: root of a pod owns the
// launcher that others have. He does not get one as long as somebody has it open.
func TestALauncherIsNotLeased(t *testing.T) {
	w := newWorld(t)
	leased := func(when, dir string) {
		t.Helper()
		file, err := os.Open(filepath.Join(dir, wire.Binary))
		must(t, err)
		defer file.Close()
		if _, err := unix.FcntlInt(file.Fd(), unix.F_SETLEASE, unix.F_WRLCK); err != unix.EAGAIN {
			t.Errorf("%s: a lease on the launcher: %v, want EAGAIN", when, err)
		}
	}
	pod, _ := w.forAPod()
	leased("at first", pod)
	status, err := w.client.Status()
	must(t, err)
	must(t, unix.Kill(status.PID, unix.SIGKILL))
	_, err = w.client.Ensure()
	must(t, err)
	leased("when the spare has taken over", pod)
	w.client.Version = "2.0"
	_, err = w.client.Ensure()
	must(t, err)
	later, _ := w.forAPod()
	if deviceOn(t, pod) == deviceOn(t, later) {
		t.Error("another version has no launcher of its own")
	}
	leased("after an upgrade, that of the version before", pod)
	leased("after an upgrade", later)
}

// While neither the mounter nor its spare lives, root of a pod can lease the launcher. Other pods
// then get another one.
func TestALeaseOfALostLauncherHarmsNoOtherPod(t *testing.T) {
	w := newWorld(t)
	pod, _ := w.forAPod()
	w.loseBoth()
	file, err := os.Open(filepath.Join(pod, wire.Binary))
	must(t, err)
	defer file.Close()
	if _, err := unix.FcntlInt(file.Fd(), unix.F_SETLEASE, unix.F_WRLCK); err != nil {
		t.Fatalf("a lease on the launcher: %v", err)
	}
	if _, err := w.client.Ensure(); err != nil {
		t.Fatalf("with a lease on the launcher: %v", err)
	}
	later, _ := w.forAPod()
	if deviceOn(t, pod) == deviceOn(t, later) {
		t.Error("a later pod has the launcher that is leased")
	}
	launcher, err := unix.Open(filepath.Join(later, wire.Binary), unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatalf("the launcher of a later pod: %v", err)
	}
	unix.Close(launcher)
}

// What several pods have does not change, whatever the flags of a mount are.
func TestWhatPodsShareIsReadOnly(t *testing.T) {
	w := newWorld(t)
	dir, _ := w.forAPod()
	socket := filepath.Join(t.TempDir(), "socket")
	must(t, os.WriteFile(socket, nil, 0o600))
	must(t, unix.Mount(w.client.Socket(), socket, "", unix.MS_BIND, ""))
	defer unix.Unmount(socket, unix.MNT_DETACH)
	for _, on := range []string{dir, socket} {
		must(t, unix.Mount("", on, "", unix.MS_REMOUNT|unix.MS_BIND, ""))
	}
	launcher := filepath.Join(dir, wire.Binary)
	for what, err := range map[string]error{
		"write":                unix.Access(launcher, unix.W_OK),
		"chmod the launcher":   os.Chmod(launcher, 0),
		"chmod the socket":     os.Chmod(socket, 0),
		"chown the socket":     os.Chown(socket, 1000, 1000),
		"chmod the directory":  os.Chmod(dir, 0),
		"link":                 os.Link(launcher, filepath.Join(dir, "link")),
		"remove":               os.Remove(launcher),
		"create":               os.WriteFile(filepath.Join(dir, "new"), nil, 0o600),
		"create in mnt":        os.Mkdir(filepath.Join(dir, wire.Mount, "new"), 0o700),
		"chmod mnt":            os.Chmod(filepath.Join(dir, wire.Mount), 0),
		"rename":               os.Rename(launcher, filepath.Join(dir, "other")),
		"change times":         unix.Utimes(launcher, []unix.Timeval{{}, {}}),
		"set an attribute":     unix.Setxattr(launcher, "user.x", []byte("x"), 0),
		"truncate the version": os.Truncate(filepath.Join(w.client.Launcher(), "version"), 0),
	} {
		if underlying(err) != unix.EROFS {
			t.Errorf("%s: %v, want EROFS", what, err)
		}
	}
}

func underlying(err error) error {
	for {
		inner, wraps := err.(interface{ Unwrap() error })
		if !wraps {
			return err
		}
		err = inner.Unwrap()
	}
}
