package install

import (
	"encoding/binary"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// A kubelet that watches the directory forgets the driver when its executable is
// removed, and would look at it again for any other file.
func TestTheExecutableIsRemovedLastAndInItsPlace(t *testing.T) {
	target := newTarget(t, nil)
	mustInstall(t, target, content(t, version("1"), []byte(`{"log":"off"}`)...))
	events := watch(t, target.Dir())
	if err := target.remove(func() error { return nil }); err != nil {
		t.Fatal(err)
	}
	want := []string{"moved config.json", "removed facts", "removed "}
	if got := events(); !slices.Equal(got, want) {
		t.Errorf("the kubelet sees %q, want %q", got, want)
	}
}

// watch returns a function that returns what has happened in a directory until then:
// "" is the directory.
func watch(t *testing.T, dir string) (events func() []string) {
	t.Helper()
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	const mask = unix.IN_CREATE | unix.IN_DELETE | unix.IN_MOVE | unix.IN_DELETE_SELF | unix.IN_MOVE_SELF
	if _, err := unix.InotifyAddWatch(fd, dir, mask); err != nil {
		t.Fatal(err)
	}
	return func() (all []string) {
		buffer := make([]byte, 1<<16)
		n, err := unix.Read(fd, buffer)
		if err != nil {
			t.Fatal(err)
		}
		for rest := buffer[:n]; len(rest) > 0; { // struct inotify_event, inotify(7)
			mask, length := binary.NativeEndian.Uint32(rest[4:]), binary.NativeEndian.Uint32(rest[12:])
			name := strings.TrimRight(string(rest[unix.SizeofInotifyEvent:][:length]), "\x00")
			rest = rest[unix.SizeofInotifyEvent+length:]
			switch {
			case mask&(unix.IN_DELETE|unix.IN_DELETE_SELF) != 0:
				all = append(all, "removed "+name)
			case mask&(unix.IN_MOVED_FROM|unix.IN_MOVE_SELF) != 0:
				all = append(all, "moved "+name)
			case mask&(unix.IN_CREATE|unix.IN_MOVED_TO) != 0:
				all = append(all, "made "+name)
			}
		}
		return all
	}
}

// While the driver is removed, the kubelet has mounted a volume.
func TestWhatCannotBeRemovedIsPutBack(t *testing.T) {
	target := newTarget(t, nil)
	mustInstall(t, target, content(t, version("1"), []byte(`{"log":"off"}`)...))
	mustInstall(t, target, content(t, version("2")))
	before := listing(t, target.PluginDir)
	events := watch(t, target.Dir())
	inUse := errors.New("volumes are in use")
	err := target.remove(func() error {
		if _, there := listing(t, target.PluginDir)["example.com~facts/facts"]; there {
			t.Error("the kubelet can still call the driver")
		}
		return inUse
	})
	if !errors.Is(err, inUse) {
		t.Errorf("the error is %v", err)
	}
	if now := listing(t, target.PluginDir); !maps.Equal(now, before) {
		t.Errorf("before: %v, now: %v", before, now)
	}
	if got, last := events(), "made facts"; got[len(got)-1] != last {
		t.Errorf("the kubelet sees %q, want %q at last", got, last)
	}
	if err := target.remove(func() error { return nil }); err != nil {
		t.Error(err)
	}
	if now := listing(t, target.PluginDir); len(now) != 1 {
		t.Errorf("left: %v", now)
	}
}
