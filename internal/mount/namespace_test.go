package mount

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/e2e/slowclose"
	"example.com/pod-info-fuse/internal/proc"
)

func TestMain(m *testing.M) {
	slowclose.Intercept()
	os.Exit(m.Run())
}

// Who has not enough descriptors to list all namespaces is told so: else a healing forgets what is
// still mounted where it did not look.
func TestNamespacesWithFewDescriptors(t *testing.T) {
	own := map[string]bool{}
	for range 8 { // each in a namespace of its own
		cmd := exec.Command("/bin/sleep", "3600")
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS, Pdeathsig: unix.SIGKILL}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		})
		name, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/mnt", cmd.Process.Pid))
		if err != nil {
			t.Fatal(err)
		}
		own[name] = true
	}
	knows := func(all []Namespace) bool { // those; others may begin or end meanwhile
		n := 0
		for _, one := range all {
			if own[one.Name] {
				n++
			}
		}
		return n == len(own)
	}
	every, _, err := Others()
	if err != nil || !knows(every) {
		t.Fatalf("%d namespaces: %v", len(every), err)
	}
	var had unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &had); err != nil {
		t.Fatal(err)
	}
	next, err := unix.Dup(0) // above it, nothing is open
	if err != nil {
		t.Fatal(err)
	}
	unix.Close(next)
	for _, free := range []int{0, 1, 2, 3, 5} {
		few := unix.Rlimit{Cur: uint64(next + free), Max: had.Max}
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &few); err != nil {
			t.Fatal(err)
		}
		all, _, err := Others()
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &had); err != nil {
			t.Fatal(err)
		}
		if err == nil && !knows(all) || err != nil && !errors.Is(err, unix.EMFILE) {
			t.Errorf("with %d descriptors: %d namespaces, %v", free, len(all), err)
		}
		if free == 0 && err == nil {
			t.Error("without a descriptor, it knows all")
		}
	}
}

// A process that hangs in execve(2) is told of, and costs those who ask no time.
func TestNamespacesOfWhoExecutes(t *testing.T) {
	f := slowclose.Mount(t)
	cmd := f.Execute(t, "/bin/sleep", "sleep", "3600")
	t.Cleanup(func() {
		f.Answer()
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	pid := cmd.Process.Pid
	began := time.Now()
	all, untold, err := Others()
	if err != nil || slices.ContainsFunc(all, func(n Namespace) bool { return n.PID == pid }) {
		t.Errorf("%+v, %v", all, err)
	}
	if !slices.Contains(untold, Namespace{PID: pid}) {
		t.Fatalf("untold: %+v, without process %d", untold, pid)
	}
	if _, err := Of(pid); !errors.Is(err, proc.ErrExecutes) {
		t.Errorf("its namespace: %v", err)
	}
	if _, err := (Namespace{PID: pid}).Open(); !errors.Is(err, proc.ErrExecutes) {
		t.Errorf("open it: %v", err)
	}
	infos, err := Namespace{PID: pid}.Mounts("fuse.slowclose", "slowclose")
	if err != nil || !slices.ContainsFunc(infos, func(info *mountinfo.Info) bool { return info.Mountpoint == f.Dir }) {
		t.Errorf("its mounts: %+v, %v", infos, err)
	}
	if took := time.Since(began); took >= proc.AskTime {
		t.Errorf("took %v", took)
	}
	f.Answer()
	for began := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		if n, err := Of(pid); err == nil && n.Ours {
			break
		} else if time.Since(began) > time.Minute {
			t.Fatalf("it executes nothing any more: %+v, %v", n, err)
		}
	}
}

// inNamespace returns the mount namespace of a thread that has called a function in it, with an
// empty directory. The thread ends with the test.
func inNamespace(t *testing.T, f func(dir string) error) (n Namespace, dir string) {
	t.Helper()
	dir = t.TempDir()
	ready, end := make(chan int), make(chan bool)
	t.Cleanup(func() { close(end) })
	go func() {
		runtime.LockOSThread()
		defer close(ready)
		err := errors.Join(unix.Unshare(unix.CLONE_NEWNS|unix.CLONE_FS), unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""),
			unix.Mount("mounts", dir, "tmpfs", 0, ""), unix.Chdir(dir))
		if err = errors.Join(err, f(dir)); err != nil {
			t.Error(err)
			return
		}
		ready <- unix.Gettid()
		<-end
	}()
	thread, ok := <-ready
	if !ok {
		t.FailNow()
	}
	return Namespace{PID: thread}, dir
}

// A mount point that is too deep for a path is nobody's business, and hides no other.
func TestMountsBesideOnesThatAreTooDeep(t *testing.T) {
	namespace, dir := inNamespace(t, func(dir string) error {
		err := unix.Mkdir("last", 0o700)
		for range 300 {
			name := strings.Repeat("x", 255)
			err = errors.Join(err, unix.Mkdir(name, 0o700), unix.Chdir(name))
		}
		for range 3 {
			err = errors.Join(err, unix.Mount("mounts", ".", "tmpfs", 0, ""))
		}
		return errors.Join(err, unix.Mount("mounts", dir+"/last", "tmpfs", 0, ""))
	})
	want := []string{dir, dir + "/last"}
	all, err := namespace.Mounts("tmpfs", "mounts")
	var points []string
	for _, info := range all {
		points = append(points, info.Mountpoint)
	}
	if err != nil || !slices.Equal(points, want) {
		t.Errorf("mounted are %q, want %q: %v", points, want, err)
	}
}

// A pod that makes many mounts with long paths does not fill the memory of who looks at it.
func TestAMountTableThatIsTooLong(t *testing.T) {
	long := strings.Repeat(strings.Repeat("x", 255)+"/", 14)
	namespace, _ := inNamespace(t, func(string) error {
		err := os.MkdirAll(long, 0o700)
		for range mostTable / len(long) {
			err = errors.Join(err, unix.Mount("mounts", long, "tmpfs", 0, ""))
		}
		return err
	})
	if all, err := namespace.Mounts("tmpfs", "mounts"); !errors.Is(err, ErrLong) {
		t.Errorf("%d mounts, %v", len(all), err)
	}
	if all, err := namespace.Mounts("ramfs", "mounts"); !errors.Is(err, ErrLong) { // or it takes as long as the pod wants
		t.Errorf("%d mounts of another type, %v", len(all), err)
	}
}
