package pod_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/podfuse/wire"
)

// A go-fuse program mounts and unmounts by the proxy, wherever that is.
func TestAProgramMountsByTheProxy(t *testing.T) {
	for _, test := range []struct {
		what  string
		binds func(d *fakeDriver) map[string]string
	}{
		{"by the directory, in PATH", func(*fakeDriver) map[string]string { return nil }},
		{"by a file", func(d *fakeDriver) map[string]string {
			bin := filepath.Join(filepath.Dir(d.serverDir()), "bin")
			must(t, os.Mkdir(bin, 0o755))
			must(t, os.WriteFile(filepath.Join(bin, "fusermount3"), nil, 0o644))
			t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
			return map[string]string{filepath.Join(bin, "fusermount3"): filepath.Join(d.dir, "fusermount3")}
		}},
	} {
		t.Run(test.what, func(t *testing.T) {
			d := newNode(t).start()
			p := d.contain(container{UID: 1000, Binds: test.binds(d), Args: []string{self, "serve", d.own(), "ro"}})
			d.servedBy(d.own(), 0)
			p.prints("serving") // go-fuse looks at its mount point
			want := wire.Request{
				Format: wire.Format, Kind: wire.Serve, Server: d.id, Mountpoint: d.own(),
				Options: wire.Options{ReadOnly: true, MaxRead: 131072, Subtype: "served"},
			}
			if got := d.asked(wire.Serve); len(got) != 1 || got[0] != want {
				t.Errorf("the driver was asked\n%+v, want\n%+v", got, want)
			}
			p.signal(unix.SIGTERM)
			if status := p.status(); status != 0 {
				t.Errorf("status %d", status)
			}
			want = wire.Request{Format: wire.Format, Kind: wire.Unmount, Server: d.id, Mountpoint: d.own()}
			if got := d.asked(wire.Unmount); len(got) != 1 || got[0] != want {
				t.Errorf("the driver was asked\n%+v, want\n%+v", got, want)
			}
		})
	}
}

// What fusermount3 says to those who call it in a wrong way, and what is ours.
func TestProxyAnswersAsFusermountDoes(t *testing.T) {
	d := newNode(t)
	d.answer = func(_ int, r wire.Request) (*wire.Answer, bool) { return &wire.Answer{Error: isNone}, false }
	d.start()
	for i, test := range []struct {
		args   []string
		env    string
		status int
		prints string
	}{
		{[]string{"-o", "ro", "--", "/mnt"}, "", 1, ": old style mounting not supported"},
		{[]string{"-o", "ro", "/mnt"}, "x", 1, ": invalid _FUSE_COMMFD: x\n"},
		{[]string{"-o", "ro", "/mnt"}, "-1", 1, ": invalid _FUSE_COMMFD: -1\n"},
		{[]string{"-o", "ro", "/mnt"}, "77", 1, ": file descriptor 77 is not a socket, can't send fuse fd: bad file descriptor\n"},
		{[]string{"-o", "ro", "/mnt"}, "2", 1, ": file descriptor 2 is not a socket, can't send fuse fd: socket operation on non-socket\n"},
		{[]string{"-o", "ro", "--comm-fd", "2", "/mnt"}, "", 1, ": file descriptor 2 is not a socket"},
		{[]string{"-o", "ro", "-o", "fun", "/mnt"}, "2", 1, ": unknown option 'fun'\n"},
		{[]string{"--options=fun", "/mnt"}, "2", 1, ": unknown option 'fun'\n"},
		{[]string{"/mnt", "-ofun"}, "2", 1, ": unknown option 'fun'\n"},
		{[]string{"-o", "ro"}, "2", 1, ": missing mountpoint argument\n"},
		{[]string{"/mnt", "/mnt"}, "2", 1, ": extra arguments after the mountpoint\n"},
		{[]string{"-z", "/mnt"}, "2", 1, ": -z can only be used with -u\n"},
		{[]string{"--auto-unmount", "/mnt"}, "2", 1, ": unknown flag: --auto-unmount\n"},
		{[]string{"--sync-init", "-o", "ro", "--", "/mnt"}, "2", 1, ": unknown flag: --sync-init\n"},
		{[]string{"--later", "/mnt"}, "2", 1, ": unknown flag: --later\n"},
		{[]string{"-x", "/mnt"}, "2", 1, ": unknown shorthand flag: 'x' in -x\n"},
		{[]string{"-o", "ro", "/mnt/no/such"}, "2", 1, ": bad mount point /mnt/no/such: lstat /mnt/no: no such file or directory\n"},
		{[]string{"-u", ""}, "", 1, ": bad mount point : no such file or directory\n"},
		{[]string{"-u", "/mnt"}, "", 1, ": failed to unmount /mnt: " + isNone + "\n"},
		{[]string{"--unmount", "--lazy", "--", "/mnt"}, "", 1, ": failed to unmount /mnt: " + isNone + "\n"},
		{[]string{"-uqz", "/mnt"}, "", 1, ""},
		{[]string{"--unmount", "--quiet", "--lazy", "--", "/mnt"}, "", 1, ""},
		{[]string{"-V"}, "", 0, " version: pod-fuse 1.2.3\n"},
		{[]string{"--version"}, "", 0, " version: pod-fuse 1.2.3\n"},
		{[]string{"-h"}, "", 1, ": [options] mountpoint\n"},
	} {
		name := wire.Proxies[i%len(wire.Proxies)] // of which nothing else depends on its name
		if test.env != "" {
			t.Setenv("_FUSE_COMMFD", test.env)
		} else {
			must(t, os.Unsetenv("_FUSE_COMMFD"))
		}
		p := d.run(append([]string{filepath.Join(d.serverDir(), name)}, test.args...)...)
		if status := p.status(); status != test.status {
			t.Errorf("%s %q: status %d, want %d", name, test.args, status, test.status)
		}
		want := name + test.prints
		if test.prints == "" {
			want = ""
		}
		if got := p.text(); !strings.HasPrefix(got, want) || want == "" && got != "" {
			t.Errorf("%s %q printed %q, want %q", name, test.args, got, want)
		}
	}
	for _, r := range d.asked(wire.Unmount) {
		if r.Mountpoint != "/mnt" {
			t.Errorf("asked to unmount %q", r.Mountpoint)
		}
	}
	if got := d.asked(wire.Serve); len(got) != 0 {
		t.Errorf("the driver was asked to mount: %+v", got)
	}
}

// A mount point is named as the kernel will show it, and its last name is not followed.
func TestProxyResolvesTheMountPoint(t *testing.T) {
	d := newNode(t)
	d.answer = func(int, wire.Request) (*wire.Answer, bool) { return &wire.Answer{}, false }
	d.start()
	root := filepath.Dir(d.serverDir())
	must(t, os.MkdirAll(filepath.Join(root, "a/b/c"), 0o755))
	must(t, os.Symlink("a/b", filepath.Join(root, "link")))
	for path, want := range map[string]string{
		"a/b/c": "a/b/c", "a/b/c/": "a/b/c", "a//b/./c//": "a/b/c", "link/c": "a/b/c", "link": "link", "link/": "link",
		"link/../b/c": "a/b/c", "link/..": "a", "link/.": "a/b", "a/b/none": "a/b/none",
	} {
		before := len(d.asked(wire.Unmount))
		if status := d.run(filepath.Join(d.serverDir(), "fusermount3"), "-u", root+"/"+path).status(); status != 0 {
			t.Errorf("%s: status %d", path, status)
			continue
		}
		if got := d.asked(wire.Unmount)[before].Mountpoint; got != filepath.Join(root, want) {
			t.Errorf("%s: the driver was asked for %s, want %s", path, got, want)
		}
	}
	p := d.run("sh", "-c", fmt.Sprintf("cd %s/link && fusermount3 -u c && fusermount3 -u . && fusermount3 -u ../b", root))
	if status := p.status(); status != 0 {
		t.Fatalf("status %d", status)
	}
	all := d.asked(wire.Unmount)
	for i, want := range []string{"a/b/c", "a/b", "a/b"} {
		if got := all[len(all)-3+i].Mountpoint; got != filepath.Join(root, want) {
			t.Errorf("relative %d: the driver was asked for %s, want %s", i, got, want)
		}
	}
}

// The descriptor comes with one byte, which is 0, by sockets of each kind that libraries use.
func TestProxySendsTheDescriptor(t *testing.T) {
	d := newNode(t).start()
	for _, kind := range []string{"stream", "seqpacket"} {
		for _, how := range []string{"environment", "--comm-fd"} {
			p := d.run(self, "library", kind, how, filepath.Join(d.serverDir(), "fusermount3"), d.own())
			if status := p.status(); status != 0 {
				t.Errorf("%s, %s: status %d", kind, how, status)
			}
			if got, want := p.text(), "read [0] with 1 descriptors: /dev/fuse\nthe end\n"; got != want {
				t.Errorf("%s, %s: %q, want %q", kind, how, got, want)
			}
		}
	}
	d.mu.Lock()
	d.notice = wire.NoVolume("dta", "example.com/pod-fuse")
	d.mu.Unlock()
	p := d.run(self, "library", "stream", "environment", filepath.Join(d.serverDir(), "fusermount3"), d.own())
	if status := p.status(); status != 0 {
		t.Errorf("without a volume: status %d", status)
	}
	if got, want := p.text(), "fusermount3: "+d.notice+"\nread [0] with 1 descriptors: /dev/fuse\nthe end\n"; got != want {
		t.Errorf("without a volume: %q, want %q", got, want)
	}
	names := []string{}
	for _, r := range d.asked(wire.Serve) {
		names = append(names, r.Subtype)
	}
	if !slices.Equal(names, []string{"raw", "raw", "raw", "raw", "raw"}) {
		t.Errorf("the subtypes are %q", names)
	}
}

// Two programs that mount by one fusermount3, of the volume which /dev/fuse is of as well: each
// serves the volume whose launcher has started it, also where that is another user's process. One
// that no launcher has started is told what to do.
func TestTwoProgramsInOneContainer(t *testing.T) {
	one, two := newNode(t).start(), newNode(t).start()
	bin := filepath.Join(filepath.Dir(one.serverDir()), "bin")
	must(t, os.Mkdir(bin, 0o755))
	must(t, os.WriteFile(filepath.Join(bin, "fusermount3"), nil, 0o644))
	must(t, os.Mkdir(two.serverDir(), 0o755))
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	binds := map[string]string{two.serverDir(): two.dir, filepath.Join(bin, "fusermount3"): filepath.Join(one.dir, "fusermount3")}
	contain := func(script string) *process {
		return one.contain(container{Binds: binds, Env: []string{"PATH=" + os.Getenv("PATH")}, Args: []string{"sh", "-c", script}})
	}
	serve := func(d *fakeDriver) string {
		return fmt.Sprintf("%s/pod-fuse run -- setpriv --reuid=1000 --clear-groups --inh-caps=-all %s serve %s", d.serverDir(), self, d.own())
	}
	contain(fmt.Sprintf("%s & %s; wait", serve(one), serve(two)))
	for _, d := range []*fakeDriver{one, two} {
		d.servedBy(d.own(), 0)
		if got := d.asked(wire.Serve); len(got) != 1 || got[0].Server != d.id || got[0].Mountpoint != d.own() {
			t.Errorf("the driver of volume %v was asked %+v", d.id, got)
		}
	}

	one.mu.Lock()
	one.answer = func(int, wire.Request) (*wire.Answer, bool) { return &wire.Answer{Error: isServed}, false }
	one.mu.Unlock()
	p := contain(fmt.Sprintf("exec %s serve %s", self, two.own()))
	p.status()
	// The container has the mounts of this machine as well, on which other tests may have server
	// volumes.
	for _, want := range []string{
		fmt.Sprintf("fusermount3: mount failed: %s; the server volume at %s was asked, and this container has server volumes at ", isServed, one.serverDir()),
		one.serverDir(), two.serverDir(),
		": execute the pod-fuse or fusermount3 of the one that is meant, as in ", "/pod-fuse run -- PROGRAM\n",
	} {
		if got := p.text(); !strings.Contains(got, want) {
			t.Errorf("printed %q, want %q", got, want)
		}
	}
}
