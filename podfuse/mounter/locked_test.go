package mounter

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/internal/mount"
	"example.com/pod-info-fuse/internal/proc"
	"example.com/pod-info-fuse/podfuse"
	"example.com/pod-info-fuse/podfuse/mounter/keep"
	"example.com/pod-info-fuse/podfuse/wire"
)

// unshareMain is unshare(1) with -Urm: it starts a process that has all capabilities in a user
// namespace of its own, and none elsewhere. Root starts it, as a node may keep others from that.
func unshareMain(flags []string) error {
	cmd := exec.Command("/test", append([]string{"remounter"}, flags...)...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	mapping := []syscall.SysProcIDMap{{ContainerID: 0, HostID: 1000, Size: 1}}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWUSER | unix.CLONE_NEWNS, UidMappings: mapping, GidMappings: mapping, Credential: &syscall.Credential{},
	}
	return cmd.Run()
}

// remounterMain tries, once it reads a line, to clear flags of mounts, "path=flag,flag": none of
// them, and then each.
func remounterMain(flags []string) error {
	fmt.Println("ready")
	if _, err := io.ReadFull(os.Stdin, make([]byte, 1)); err != nil {
		return err
	}
	values := map[string]uintptr{"ro": unix.MS_RDONLY, "nosuid": unix.MS_NOSUID, "nodev": unix.MS_NODEV, "noexec": unix.MS_NOEXEC}
	for _, one := range flags {
		path, names, _ := strings.Cut(one, "=")
		for without := range strings.SplitSeq("nothing,"+names, ",") {
			var left uintptr = unix.MS_REMOUNT | unix.MS_BIND
			for name := range strings.SplitSeq(names, ",") {
				if name != without {
					left |= values[name]
				}
			}
			fmt.Printf("%s without %s: %v\n", path, without, unix.Mount("", path, "", left, ""))
		}
	}
	return nil
}

// remounter starts that one in the container, by a role. tries has it try, and compares what it
// tells.
func (c *pod) remounter(role string, flags ...string) (pid int, tries func()) {
	t := c.w.t
	t.Helper()
	cmd := c.exec(0, append([]string{role}, flags...)...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	t.Cleanup(func() { in.Close(); _ = cmd.Wait() })
	lines := bufio.NewReader(out)
	if line, err := lines.ReadString('\n'); line != "ready\n" {
		t.Fatalf("%q, %v", line, err)
	}
	want := ""
	for _, one := range flags {
		path, names, _ := strings.Cut(one, "=")
		want += path + " without nothing: <nil>\n" // it may change flags
		for name := range strings.SplitSeq(names, ",") {
			want += path + " without " + name + ": operation not permitted\n"
		}
	}
	return c.programs("remounter")[0], func() {
		t.Helper()
		_, err := in.Write([]byte("\n"))
		must(t, err)
		if got, err := io.ReadAll(lines); err != nil || string(got) != want {
			t.Errorf("%s %q: %v\n%swant\n%s", role, flags, err, got, want)
		}
	}
}

// Whoever makes himself a user namespace, which takes no capability, is root of the mounts that are
// attached in there. He gets rid neither of the pod's readOnly, nor of nosuid, nodev and noexec;
// and a container's own root does not, either.
func TestFlagsAreLocked(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	plain, below := w.container(containerOptions{Sub: "there"}), w.container(containerOptions{Below: "there"})
	namespace, err := mount.Of(below.pid)
	must(t, err)
	must(t, namespace.Do(func() error {
		return unix.Mount("", "/data", "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, "")
	}))
	plainPID, plainTries := plain.remounter("unshare", "/data=nosuid,nodev,noexec", "/sub=ro,nosuid,nodev,noexec")
	belowPID, belowTries := below.remounter("unshare", "/data=ro,nosuid,nodev,noexec")
	_, ownTries := plain.remounter("remounter", "/m=nosuid,nodev,noexec")
	generation := plain.serve(launchOptions{Text: "one", Mountpoint: "/m", Options: wire.Options{NoExec: true}})
	for _, pid := range []int{plainPID, belowPID, below.pid} {
		if problem := w.attach(generation, pid); problem != "" {
			t.Fatal(problem)
		}
	}
	plainTries()
	belowTries()
	ownTries()
	at := fmt.Sprintf("/proc/%d/root/data/", below.pid)
	if err := os.WriteFile(at+"new", nil, 0o600); !errors.Is(err, unix.EROFS) {
		t.Errorf("write to the volume: %v", err)
	}
	if err := os.WriteFile(at+"there/new", nil, 0o600); err != nil {
		t.Errorf("write to another volume, which is below it: %v", err)
	}
	// What is mounted on one appears nowhere else.
	for _, mounted := range append(plain.mounts("fuse"), below.mounts("fuse")...) {
		if strings.Contains(mounted, "master:") || strings.Contains(mounted, "shared:") {
			t.Error(mounted)
		}
	}
}

// Where no vault that locks flags can be made, the mounter tells why, and attaches nothing.
func TestNoVault(t *testing.T) {
	var log []string
	m := newMounter(&base{set: keep.New(), Config: Config{Layout: podfuse.Layout{RunDir: t.TempDir()}}})
	m.log = func(format string, args ...any) { log = append(log, fmt.Sprintf(format, args...)) }
	defer m.takesTurns()()
	// Nobody makes a user namespace in another root directory (kernel/user_namespace.c,
	// create_user_ns).
	root := t.TempDir()
	must(t, proc.OnThread(func() error {
		err := errors.Join(unix.Unshare(unix.CLONE_NEWNS), unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""),
			unix.Mount("/", root, "", unix.MS_BIND|unix.MS_REC, ""), unix.Chroot(root), unix.Chdir("/"))
		m.openVault()
		return err
	}))
	_, err := m.vault()
	for _, said := range []string{fmt.Sprint(err), strings.Join(log, "\n")} {
		if !strings.Contains(said, "operation not permitted") || !strings.Contains(said, "user.max_user_namespaces") {
			t.Errorf("where no user namespace can be made: %q", said)
		}
	}
	m.openVault() // where it can
	if vault, err := m.vault(); err != nil {
		t.Error(err)
	} else {
		vault.Close()
	}
}

// A program that does not answer who makes a directory in what it serves keeps no other program's
// mounts: these end with their last mount.
func TestACopyForWhoAsks(t *testing.T) {
	vault, err := newVault(t.TempDir())
	must(t, err)
	defer vault.Close()
	must(t, mount.Inside(int(vault.Fd()), func() (err error) {
		for _, path := range []string{"/7.1", "/7.2"} {
			err = errors.Join(err, os.Mkdir(path, 0o700), unix.Mount("program", path, "tmpfs", unix.MS_NODEV, ""), mountReadOnly(path, unix.MS_NODEV))
		}
		return err
	}))
	for _, row := range []struct{ asks, want string }{{"7.1", "/ /7.1 /7.1.ro"}, {"", "/ /7.1 /7.1.ro /7.2 /7.2.ro"}} {
		thread, answered, done := make(chan int, 1), make(chan bool), make(chan error, 1)
		go func() {
			done <- inCopy(int(vault.Fd()), row.asks, func() error {
				thread <- unix.Gettid()
				<-answered
				for path, flags := range map[string]uintptr{"/7.1": 0, "/7.1.ro": unix.MS_NODEV} {
					if err := unix.Mount("", path, "", unix.MS_REMOUNT|unix.MS_BIND|flags, ""); err != unix.EPERM {
						t.Errorf("clear a flag of %s: %v", path, err)
					}
				}
				_, err := openMade("/7.1", "sub", true)
				return err
			})
		}()
		var table []byte
		select {
		case id := <-thread:
			table, err = os.ReadFile(fmt.Sprintf("/proc/self/task/%d/mountinfo", id))
			must(t, err)
		case err := <-done:
			t.Fatal(err)
		}
		mounts, err := mountinfo.GetMountsFromReader(bytes.NewReader(table), nil)
		must(t, err)
		var points []string
		for _, info := range mounts {
			points = append(points, info.Mountpoint)
		}
		slices.Sort(points)
		if got := strings.Join(points, " "); got != row.want {
			t.Errorf("of a copy for who asks %q, mounted are %s, want %s", row.asks, got, row.want)
		}
		close(answered)
		must(t, <-done)
	}
}
