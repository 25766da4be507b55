package cgroup

import (
	"errors"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestAProcessLeavesTheKubeletsCgroupInEveryHierarchy(t *testing.T) {
	if !isolated(t) {
		return
	}
	all := mountedHierarchies(t)
	pid := kubelet(t, all)
	if where, err := Of(pid); err != nil || where != "/"+kubelets {
		t.Fatalf("before: %q, %v", where, err)
	}
	where, err := Escape(driver, pid, MaxThreads)
	if err != nil || where != "/"+ownName(driver, pid) {
		t.Errorf("%q, %v", where, err)
	}
	groups := groups(t, pid)
	for _, dir := range all {
		want := "/" + ownName(driver, pid)
		if strings.Contains(dir, "cpuset") {
			want = "/" // a new cgroup would need CPUs first
		}
		if got := groups[filepath.Base(dir)]; got != want {
			t.Errorf("%s: %q", dir, got)
		}
	}
	// Once more changes nothing: the cgroup is there.
	if again, err := Escape(driver, pid, MaxThreads); err != nil || again != where {
		t.Errorf("again: %q, %v", again, err)
	}
}

func TestAProcessInTheRootLeavesItForLimitsOnly(t *testing.T) {
	if !isolated(t) {
		return
	}
	all := mountedHierarchies(t)
	pid := kubelet(t, all[:1])
	if _, err := Escape(driver, pid, MaxThreads); err != nil {
		t.Error(err)
	}
	for i, dir := range all {
		made, _ := filepath.Glob(filepath.Join(dir, "*~"+path.Base(driver)+"~*"))
		limits := strings.Contains(dir, "pids") || strings.Contains(dir, "memory") || passedOn(t, dir)
		if want := i == 0 || limits; want != (made != nil) {
			t.Errorf("%s: %s", dir, made)
		}
	}
}

func TestHierarchiesThatDoNotLetGoAreNamed(t *testing.T) {
	if !isolated(t) {
		return
	}
	all := mountedHierarchies(t)
	pid := kubelet(t, all)
	last := all[len(all)-1]
	mount(t, "none", last, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, "")
	defer mount(t, "none", last, "", unix.MS_REMOUNT|unix.MS_BIND, "")

	where, err := Escape(driver, pid, MaxThreads)
	if where != "" || !errors.Is(err, unix.EROFS) {
		t.Errorf("%q, %v", where, err)
	}
	for _, part := range []string{"leave /" + kubelets, filepath.Base(last), last + "/" + ownName(driver, pid), "writable"} {
		if err != nil && !strings.Contains(err.Error(), part) {
			t.Errorf("%v: %q is missing", err, part)
		}
	}
	for hierarchy, path := range groups(t, pid) {
		if stays := hierarchy == filepath.Base(last); stays != (path == "/"+kubelets) {
			t.Errorf("%s: %s", hierarchy, path)
		}
	}
}

func TestHierarchiesThatAreNotMountedAreNamed(t *testing.T) {
	if !isolated(t) {
		return
	}
	all := mountedHierarchies(t)
	pid := kubelet(t, all[:1])
	if err := unix.Unmount(all[0], unix.MNT_DETACH); err != nil {
		t.Fatal(err)
	}
	where, err := Escape(driver, pid, MaxThreads)
	if where != "" || err == nil || !strings.Contains(err.Error(), "hierarchy "+filepath.Base(all[0])+": it is not mounted") {
		t.Errorf("%q, %v", where, err)
	}
	name := filepath.Base(all[0])
	if name == "unified" {
		mount(t, "none", all[0], "cgroup2", 0, "")
	} else {
		mount(t, "none", all[0], "cgroup", 0, name)
	}
}

func TestAProcessThatIsGoneCannotEscape(t *testing.T) {
	if where, err := Escape(driver, 1<<30, MaxThreads); where != "" || !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("%q, %v", where, err)
	}
}

// Until its parent has reaped it, the kernel shows it in a cgroup.
func TestAProcessThatHasDiedIsInNoCgroup(t *testing.T) {
	if !isolated(t) {
		return
	}
	pid := kubelet(t, mountedHierarchies(t))
	if err := errors.Join(unix.Kill(pid, unix.SIGKILL), unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)); err != nil {
		t.Fatal(err)
	}
	if where, err := Escape(driver, pid, MaxThreads); where != "" || !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("%q, %v", where, err)
	}
}

// It lives, and status must say that it is still in the kubelet's cgroup.
func TestAProcessThatProcDoesNotShowHasNotEnded(t *testing.T) {
	if !isolated(t) {
		return
	}
	pid := kubelet(t, mountedHierarchies(t))
	mount(t, "none", "/proc", "tmpfs", 0, "")
	where, err := Escape(driver, pid, MaxThreads)
	if err := unix.Unmount("/proc", unix.MNT_DETACH); err != nil {
		t.Fatal(err)
	}
	if where != "" || err == nil || errors.Is(err, os.ErrProcessDone) {
		t.Errorf("%q, %v", where, err)
	}
}

func TestRemoveDoesNotTakeACgroupInUse(t *testing.T) {
	if !isolated(t) {
		return
	}
	pid := kubelet(t, mountedHierarchies(t))
	if _, err := Escape(driver, pid, MaxThreads); err != nil {
		t.Fatal(err)
	}
	if err := remove(driver, 100*time.Millisecond); !errors.Is(err, unix.EBUSY) {
		t.Error(err)
	}
}

// passedOn tells whether the root of cgroup v2 lets others have limits.
func passedOn(t *testing.T, dir string) bool {
	t.Helper()
	controllers, err := os.ReadFile(filepath.Join(dir, "cgroup.subtree_control"))
	return err == nil && (strings.Contains(string(controllers), "pids") || strings.Contains(string(controllers), "memory"))
}

func TestTheNewCgroupIsLimited(t *testing.T) {
	if !isolated(t) {
		return
	}
	all := mountedHierarchies(t)
	pid := kubelet(t, all)
	if got := LimitsOf(pid); got != (Limits{}) {
		t.Errorf("before: %+v", got)
	}
	if _, err := Escape(driver, pid, MaxThreads); err != nil {
		t.Error(err)
	}
	var want Limits
	for _, dir := range all {
		if strings.Contains(dir, "pids") || passedOn(t, dir) {
			want.Threads = MaxThreads
		}
		if strings.Contains(dir, "memory") || passedOn(t, dir) {
			want.Memory = MaxMemory
		}
	}
	if got := LimitsOf(pid); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// Active and standby share their cgroup. When one of them takes all the memory, the other
// one lives.
func TestTheProcessThatTakesTheMemoryIsKilledAlone(t *testing.T) {
	if !isolated(t) {
		return
	}
	pid := kubelet(t, mountedHierarchies(t))
	if _, err := Escape(driver, pid, MaxThreads); err != nil {
		t.Fatal(err)
	}
	if LimitsOf(pid).Memory == 0 {
		t.Skip("this machine has no memory controller for us")
	}
	group := GroupOf(driver, pid)
	// It is moved there before it begins, as a child would be.
	hog := exec.Command("sh", "-c", "read go; exec tail /dev/zero")
	stdin, err := hog.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := hog.Start(); err != nil {
		t.Fatal(err)
	}
	for _, dir := range group {
		if err := write(filepath.Join(dir, "cgroup.procs"), strconv.Itoa(hog.Process.Pid)); err != nil {
			t.Fatal(err)
		}
	}
	stdin.Write([]byte("go\n"))
	err = hog.Wait()
	if state := hog.ProcessState.Sys().(syscall.WaitStatus); !state.Signaled() || state.Signal() != unix.SIGKILL {
		t.Errorf("who takes all memory ends with %v", err)
	}
	if got := group.Processes(); !slices.Contains(got, pid) {
		t.Errorf("the other one, %d, is gone: %v", pid, got)
	}
}

func TestAGroupHasTheProcessAndItsChildren(t *testing.T) {
	if !isolated(t) {
		return
	}
	if got := GroupOf(driver, os.Getpid()); len(got.Processes()) != 0 {
		t.Errorf("who was not moved is in the group %+v", got)
	}
	one := kubelet(t, mountedHierarchies(t))
	other := exec.Command("sleep", "1000")
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { other.Process.Kill(); other.Wait() }()
	for _, pid := range []int{one, other.Process.Pid} {
		if _, err := Escape(driver, pid, MaxThreads); err != nil {
			t.Fatal(err)
		}
	}
	if got := GroupOf(driver, one).Processes(); !slices.Equal(got, []int{one}) {
		t.Errorf("%v, want %d", got, one)
	}
}
