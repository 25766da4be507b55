package pod

import (
	"fmt"
	"strings"
	"testing"
)

// mountLine is a line of mountinfo.
func mountLine(root, at, fsType, source string) string {
	return fmt.Sprintf("300 200 0:50 %s %s ro,nosuid,nodev,relatime - %s %s rw,mode=755\n", root, at, fsType, source)
}

func TestServerOf(t *testing.T) {
	const a, b = "/00000000000001", "/00000000000002"
	// of is one of our mounts, dir a directory of a server volume, and noise every container's.
	of := func(root, at string) string { return mountLine(root, at, "tmpfs", "pod-fuse") }
	dir := func(id, at string) string {
		return of("/volume", at) + of("/socket", at+"/socket") + of(id, at+"/fuse")
	}
	noise := mountLine("/", "/", "overlay", "overlay") + mountLine("/", "/dev/shm", "tmpfs", "shm")
	const proxy = "/volume/fusermount3"
	usual := dir(a, "/run/pod-fuse") + of(a, "/dev/fuse") + of(proxy, "/usr/bin/fusermount3")
	for _, test := range []struct {
		what, executables, table string // separated by spaces, the nearest first
		dir, err                 string
	}{
		{"by a file", "/usr/bin/fusermount3", usual, "/run/pod-fuse", ""},
		{"by the directory", "/run/pod-fuse/pod-fuse", usual, "/run/pod-fuse", ""},
		{"copied elsewhere", "/usr/bin/pod-fuse", usual, "/run/pod-fuse", ""},
		{"a directory elsewhere", "/usr/bin/fusermount3", dir(a, "/x") + of(proxy, "/usr/bin/fusermount3"), "/x", ""},
		{"white space in its path", "/a\tb/pod-fuse", dir(a, `/a\011b`), "/a\tb", ""},
		{"mounted twice, by the usual one", "/usr/bin/fusermount3", dir(a, "/x") + usual, "/run/pod-fuse", ""},
		{"mounted twice, by its own", "/x/pod-fuse", usual + dir(a, "/x"), "/x", ""},
		{"of two, by the directory", "/b/fusermount3", usual + dir(b, "/b"), "/b", ""},
		{"of two, by the launcher", "/usr/bin/fusermount3 /usr/bin/sshfs /b/pod-fuse", usual + dir(b, "/b"), "/b", ""},
		{"of two, by the launcher that is nearest", "/usr/bin/fusermount3 /usr/bin/sshfs /b/pod-fuse /bin/sh /run/pod-fuse/pod-fuse", usual + dir(b, "/b"), "/b", ""},
		{"of two, by the launcher, and not by PATH", "/run/pod-fuse/fusermount3 /usr/bin/sshfs /b/pod-fuse", usual + dir(b, "/b"), "/b", ""},
		{"of two, by itself, and not by a launcher", "/run/pod-fuse/pod-fuse /bin/sh /b/pod-fuse", usual + dir(b, "/b"), "/run/pod-fuse", ""},
		{"a launcher of no volume", "/usr/bin/fusermount3 /usr/bin/sshfs /usr/bin/pod-fuse", usual + dir(b, "/b"), "/run/pod-fuse", ""},
		{"of two, by the FIFO", "/usr/bin/fusermount3", dir(b, "/run/pod-fuse") + dir(a, "/a") + of(a, "/dev/fuse"), "/a", ""},
		{"another's FIFO on top", "/usr/bin/fusermount3", usual + dir(b, "/b") + of(b, "/dev/fuse"), "/b", ""},
		{"copied, of two the usual one", "/usr/bin/pod-fuse", dir(b, "/b") + dir(a, "/run/pod-fuse"), "/run/pod-fuse", ""},
		{"copied, none of two is usual", "/usr/bin/pod-fuse", dir(a, "/a") + dir(b, "/b"), "", "server volumes at /a and /b: execute the pod-fuse or fusermount3 of the one that is meant, as in /a/pod-fuse run -- PROGRAM"},
		{"a file without its directory", "/usr/bin/fusermount3", of(proxy, "/usr/bin/fusermount3") + of(a, "/dev/fuse"), "", "no server volume"},
		{"a directory without its FIFO", "/run/pod-fuse/pod-fuse", of("/volume", "/run/pod-fuse"), "", "no server volume"},
		{"a FIFO without its directory", "/run/pod-fuse/pod-fuse", of(a, "/run/pod-fuse/fuse"), "", "no server volume"},
		{"nothing", "/pod-fuse", "", "", "no server volume"},
		{"not a tmpfs", "/run/pod-fuse/pod-fuse", strings.ReplaceAll(dir(a, "/run/pod-fuse"), "tmpfs", "ext4"), "", "no server volume"},
		{"a tmpfs of others", "/run/pod-fuse/pod-fuse", strings.ReplaceAll(dir(a, "/run/pod-fuse"), "tmpfs pod-fuse", "tmpfs tmpfs"), "", "no server volume"},
		{"the whole tmpfs", "/run/pod-fuse/pod-fuse", of("/", "/run/pod-fuse"), "", "no server volume"},
		{"deleted on the node", "/run/pod-fuse/pod-fuse", dir(a+"//deleted", "/run/pod-fuse"), "", "no server volume"},
	} {
		got, err := serverOf(strings.Split(test.executables, " "), strings.NewReader(noise+test.table))
		switch {
		case test.err != "" && (err == nil || !strings.Contains(err.Error(), test.err)):
			t.Errorf("%s: got %+v, %v; want an error with %q", test.what, got, err, test.err)
		case test.err == "" && (err != nil || got.dir != test.dir):
			t.Errorf("%s: got %+v, %v; want %s", test.what, got, err, test.dir)
		}
	}
}

func TestDelaysOfAProgramThatDiesYoung(t *testing.T) {
	var got []string
	delay, youngs := nextDelay(0, 0), 0
	for range 10 {
		youngs++
		delay = nextDelay(delay, youngs)
		got = append(got, delay.String())
	}
	if got, want := strings.Join(got, " "), "0s 100ms 200ms 400ms 800ms 1.6s 3.2s 6.4s 10s 10s"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if delay := nextDelay(delay, 0); delay != 0 {
		t.Errorf("after a long life: %v", delay)
	}
}
