package cgroup

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
)

// info is a mount of a hierarchy.
func info(kind, options string) *mountinfo.Info {
	return &mountinfo.Info{FSType: kind, VFSOptions: options, Root: "/", Mountpoint: "/sys/fs/cgroup"}
}

func TestAProcessLeavesTheKubeletsCgroupInEveryHierarchy(t *testing.T) {
	if !isolated(t) {
		return
	}
	all := hierarchies(t)
	pid := kubelet(t, all)
	if where, err := Of(pid); err != nil || where != "/kubelet" {
		t.Fatalf("before: %q, %v", where, err)
	}
	where, err := Escape(context.Background(), driver, pid)
	if err != nil || where != "/"+ownName(driver) {
		t.Errorf("%q, %v", where, err)
	}
	groups := groups(t, pid)
	for _, dir := range all {
		if got := groups[filepath.Base(dir)]; got != "/"+ownName(driver) {
			t.Errorf("%s: %q", dir, got)
		}
	}
	// Once more changes nothing: the cgroup is there.
	if again, err := Escape(context.Background(), driver, pid); err != nil || again != where {
		t.Errorf("again: %q, %v", again, err)
	}
}

func TestAProcessInTheRootStaysThere(t *testing.T) {
	if !isolated(t) {
		return
	}
	all := hierarchies(t)
	pid := kubelet(t, all[:1])
	if _, err := Escape(context.Background(), driver, pid); err != nil {
		t.Error(err)
	}
	for i, dir := range all {
		made, _ := filepath.Glob(filepath.Join(dir, prefix+"*"))
		if want := i == 0; want != (made != nil) {
			t.Errorf("%s: %s", dir, made)
		}
	}
}

func TestHierarchiesThatDoNotLetGoAreNamed(t *testing.T) {
	if !isolated(t) {
		return
	}
	all := hierarchies(t)
	pid := kubelet(t, all)
	last := all[len(all)-1]
	mount(t, "none", last, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, "")
	defer mount(t, "none", last, "", unix.MS_REMOUNT|unix.MS_BIND, "")

	where, err := Escape(context.Background(), driver, pid)
	if where != "" || !errors.Is(err, unix.EROFS) {
		t.Errorf("%q, %v", where, err)
	}
	for _, part := range []string{"leave /kubelet", filepath.Base(last), last + "/" + ownName(driver), "writable"} {
		if err != nil && !strings.Contains(err.Error(), part) {
			t.Errorf("%v: %q is missing", err, part)
		}
	}
	for hierarchy, path := range groups(t, pid) {
		if stays := hierarchy == filepath.Base(last); stays != (path == "/kubelet") {
			t.Errorf("%s: %s", hierarchy, path)
		}
	}
}

func TestHierarchiesThatAreNotMountedAreNamed(t *testing.T) {
	if !isolated(t) {
		return
	}
	all := hierarchies(t)
	pid := kubelet(t, all[:1])
	if err := unix.Unmount(all[0], unix.MNT_DETACH); err != nil {
		t.Fatal(err)
	}
	where, err := Escape(context.Background(), driver, pid)
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
	if where, err := Escape(context.Background(), driver, 1<<30); where != "" || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%q, %v", where, err)
	}
}

func TestRemoveDoesNotTakeACgroupInUse(t *testing.T) {
	if !isolated(t) {
		return
	}
	pid := kubelet(t, hierarchies(t))
	if _, err := Escape(context.Background(), driver, pid); err != nil {
		t.Fatal(err)
	}
	if err := Remove(driver); !errors.Is(err, unix.EBUSY) {
		t.Error(err)
	}
}
