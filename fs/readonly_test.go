package fs_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/internal/testnode"
)

// change is a way to change something in a volume.
type change struct {
	name string
	do   func(volume string) error
}

func opened(path string, flags int) error {
	fd, err := unix.Open(path, flags|unix.O_CLOEXEC, 0o644)
	if err == nil {
		unix.Close(fd)
	}
	return err
}

var changes = []change{
	{"open for writing", func(v string) error { return opened(v+"/pod.uid", unix.O_WRONLY) }},
	{"open for both", func(v string) error { return opened(v+"/pod", unix.O_RDWR) }},
	{"open for appending", func(v string) error { return opened(v+"/pod.nodename", unix.O_WRONLY|unix.O_APPEND) }},
	{"open by the link", func(v string) error { return opened(v+"/pid", unix.O_WRONLY) }},
	{"open and truncate", func(v string) error { return opened(v+"/pod.uid", unix.O_RDONLY|unix.O_TRUNC) }},
	{"create", func(v string) error { return opened(v+"/new", unix.O_RDWR|unix.O_CREAT) }},
	{"create for reading", func(v string) error { return opened(v+"/new", unix.O_RDONLY|unix.O_CREAT|unix.O_EXCL) }},
	{"create one that is there", func(v string) error { return opened(v+"/pod.uid", unix.O_WRONLY|unix.O_CREAT|unix.O_TRUNC) }},
	{"create one without a name", func(v string) error { return opened(v, unix.O_RDWR|unix.O_TMPFILE) }},
	{"mkdir", func(v string) error { return unix.Mkdir(v+"/new", 0o755) }},
	{"mkfifo", func(v string) error { return unix.Mkfifo(v+"/new", 0o644) }},
	{"mknod", func(v string) error { return unix.Mknod(v+"/new", unix.S_IFREG|0o644, 0) }},
	{"symlink", func(v string) error { return unix.Symlink("pod", v+"/new") }},
	{"link", func(v string) error { return unix.Link(v+"/pod.uid", v+"/new") }},
	{"rename", func(v string) error { return unix.Rename(v+"/pod", v+"/new") }},
	{"rename over another", func(v string) error { return unix.Rename(v+"/pod", v+"/pod.uid") }},
	{"exchange", func(v string) error {
		return unix.Renameat2(unix.AT_FDCWD, v+"/pod", unix.AT_FDCWD, v+"/pod.uid", unix.RENAME_EXCHANGE)
	}},
	{"unlink", func(v string) error { return unix.Unlink(v + "/pod.uid") }},
	{"unlink the link", func(v string) error { return unix.Unlink(v + "/pid") }},
	{"chmod", func(v string) error { return unix.Chmod(v+"/pod.uid", 0o666) }},
	{"chmod the directory", func(v string) error { return unix.Chmod(v, 0o777) }},
	{"chown", func(v string) error { return unix.Chown(v+"/pod", 1, 1) }},
	{"chown the link", func(v string) error { return unix.Lchown(v+"/pid", 1, 1) }},
	{"truncate", func(v string) error { return unix.Truncate(v+"/pod.uid", 0) }},
	{"touch", func(v string) error { return unix.Utimes(v+"/pod.uid", nil) }},
	{"set a time", func(v string) error { return unix.Utimes(v+"/pod.uid", make([]unix.Timeval, 2)) }},
	{"set an attribute", func(v string) error { return unix.Setxattr(v+"/pod.uid", "user.mine", []byte("1"), 0) }},
	{"set a trusted attribute", func(v string) error { return unix.Setxattr(v, "trusted.mine", []byte("1"), 0) }},
	{"remove an attribute", func(v string) error { return unix.Removexattr(v+"/pod.uid", "user.mine") }},
	{"bind a socket", func(v string) error {
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		return unix.Bind(fd, &unix.SockaddrUnix{Name: v + "/new"})
	}},
}

// as does something as another user, as far as files are concerned.
func as(t *testing.T, uid int, do func()) {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	set := func(uid int) {
		if err := unix.Setfsuid(uid); err != nil {
			t.Fatal(err)
		}
	}
	set(uid)
	do()
	set(0)
}

// The mount may be written to as far as its flags go: containers in user namespaces need
// that. The daemon refuses; others than root are refused by the kernel before.
func TestNothingInAVolumeCanBeChanged(t *testing.T) {
	d := testnode.Install(t)
	dir := d.Mount()
	before := seen(t, dir)
	for _, c := range changes {
		t.Run(c.name, func(t *testing.T) {
			if err := c.do(dir); err != unix.EROFS {
				t.Errorf("root: %v, want EROFS", err)
			}
			as(t, 1000, func() {
				if err := c.do(dir); !slices.Contains([]error{unix.EROFS, unix.EACCES, unix.EPERM}, err) {
					t.Errorf("another user: %v, want EROFS, EACCES or EPERM", err)
				}
			})
		})
	}
	// The kernel refuses by itself what does not fit into the daemon's buffer (fs/fuse/dev.c,
	// fuse_dev_do_read).
	if err := unix.Setxattr(filepath.Join(dir, "pod.uid"), "user.mine", make([]byte, 64<<10), 0); err != unix.E2BIG {
		t.Errorf("set an attribute of 64 KiB: %v, want E2BIG", err)
	}
	if after := seen(t, dir); after != before {
		t.Errorf("the volume was\n%sand is\n%s", before, after)
	}
}

// seen is what a volume has.
func seen(t *testing.T, dir string) string {
	t.Helper()
	var text strings.Builder
	for _, name := range []string{".", "pid", "pod", "pod.nodename", "pod.uid"} {
		var stat unix.Stat_t
		if err := unix.Lstat(filepath.Join(dir, name), &stat); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&text, "%s: %o, of %d:%d, %d bytes\n", name, stat.Mode, stat.Uid, stat.Gid, stat.Size)
	}
	entries, err := os.ReadDir(dir)
	fmt.Fprintln(&text, entries, err, testnode.Read(t, dir, "pod.uid"), testnode.Read(t, dir, "pod"))
	return text.String()
}

// Programs ask every file whether it is a terminal. It is not, and no more is to be said.
func TestAFileOfAVolumeIsNoTerminal(t *testing.T) {
	file, err := os.Open(filepath.Join(testnode.Install(t).Mount(), "pod.uid"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := unix.IoctlGetTermios(int(file.Fd()), unix.TCGETS); err != unix.ENOTTY {
		t.Errorf("isatty: %v, want ENOTTY", err)
	}
}

// A container whose mount of the volume is read-only has it so after the volume was
// healed, and others have it as it was.
func TestAHealedMountIsAsReadOnlyAsBefore(t *testing.T) {
	d := testnode.Install(t)
	volume := d.Mount()
	readOnly := t.TempDir()
	if err := unix.Mount(volume, readOnly, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Unmount(readOnly, unix.MNT_DETACH) })
	const all = unix.MS_BIND | unix.MS_REMOUNT | unix.MS_RDONLY | unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	if err := unix.Mount("", readOnly, "", all, ""); err != nil {
		t.Fatal(err)
	}
	d.KillPair()
	d.Must("init")
	for path, want := range map[string]string{volume: "rw,nosuid,nodev,noexec", readOnly: "ro,nosuid,nodev,noexec"} {
		if flags := mountFlags(t, path); !strings.HasPrefix(flags, want+",") {
			t.Errorf("%s is mounted with %s, want %s", path, flags, want)
		}
		if got := testnode.Read(t, path, "pod.uid"); got != testnode.PodUID+"\n" {
			t.Errorf("%s: pod.uid is %q", path, got)
		}
	}
}

// mountFlags are the options of the topmost mount on a path.
func mountFlags(t *testing.T, path string) (flags string) {
	t.Helper()
	for line := range strings.Lines(testnode.Read(t, "/proc/self/mounts")) {
		if fields := strings.Fields(line); fields[1] == path {
			flags = fields[3]
		}
	}
	if flags == "" {
		t.Errorf("%s is not mounted", path)
	}
	return flags
}

// A file system that can be written to is asked more: sync(2) must not wait for a daemon
// that hangs.
func TestSyncDoesNotAskTheDaemon(t *testing.T) {
	d := testnode.Install(t)
	volume := d.Mount()
	active, standby := d.Pair()
	fd, err := unix.Open(filepath.Join(volume, "pod.uid"), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	for _, pid := range []int{standby, active} {
		if err := unix.Kill(pid, unix.SIGSTOP); err != nil {
			t.Fatal(err)
		}
	}
	defer func() {
		for _, pid := range []int{active, standby} {
			if err := unix.Kill(pid, unix.SIGCONT); err != nil && !errors.Is(err, unix.ESRCH) {
				t.Error(err)
			}
		}
	}()
	done := make(chan error, 1)
	go func() { done <- unix.Syncfs(fd) }()
	select {
	case err := <-done:
		if err != nil {
			t.Errorf("syncfs: %v", err)
		}
	case <-time.After(testnode.Forever):
		t.Error("syncfs waits for the daemon")
	}
}
