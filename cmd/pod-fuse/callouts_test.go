package main_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/podfuse"
	"example.com/pod-info-fuse/survive/volume"
)

// isMounted tells whether something is mounted on a directory, how often.
func (n node) isMounted(dir string) (count int) {
	for line := range strings.Lines(read(n.t, "/proc/self/mountinfo")) {
		if strings.Fields(line)[4] == dir {
			count++
		}
	}
	return count
}

// leftNothing checks that a failed mount has left no mount, record, directory or process.
func (n node) leftNothing() {
	n.t.Helper()
	for _, pattern := range []string{"volumes/*", "server-volumes/*", "servers/*"} {
		if left, _ := filepath.Glob(filepath.Join(n.runDir, pattern)); len(left) > 0 {
			n.t.Errorf("left over: %q", left)
		}
	}
	if left := n.processes(); len(left) > 0 {
		n.t.Errorf("processes are left: %q", left)
	}
}

// The CSI plugin executes the same call-outs, on directories of another form, and again every
// minute.
func TestVolumesOfTheOtherDoor(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.csi = true
	client, server := n.pod()
	n.serves(client, server)
	for range 2 {
		if got := n.reads(client, server); got != "hello" {
			t.Errorf("read %q", got)
		}
		n.must("mount", client, options(podUID))
		n.must("mount", server, options(podUID, "serves", "data"))
	}
	if s := n.status().Programs; len(s) != 1 || s[0].State != "served" || s[0].Name != "data" || s[0].Problem != "" {
		t.Errorf("status: %+v", s)
	}
	if entries, err := os.ReadDir(client); err != nil || len(entries) > 0 {
		t.Errorf("the host sees %v, %v", entries, err)
	}
	n.must("unmount", client)
	n.must("unmount", server)
}

func TestVolumesInEitherOrderAndAgain(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	client, server := n.volume(podUID, "data"), n.volume(podUID, "data-server")
	calls := map[string][]string{client: {"mount", client, options(podUID)}, server: {"mount", server, options(podUID, "serves", "data")}}
	for _, order := range [][2]string{{client, server}, {server, client}} {
		for range 2 {
			for _, dir := range order {
				n.must(calls[dir]...)
				if count := n.isMounted(dir); count != 1 {
					t.Errorf("%d mounts on %s", count, dir)
				}
			}
		}
		for range 2 {
			for _, dir := range order {
				n.must("unmount", dir)
				if count := n.isMounted(dir); count != 0 {
					t.Errorf("%d mounts on %s", count, dir)
				}
			}
		}
		for _, pattern := range []string{"volumes/*", "server-volumes/*", "servers/*"} {
			left, _ := filepath.Glob(filepath.Join(n.runDir, pattern))
			for _, path := range left {
				t.Errorf("left over: %s", path)
			}
		}
	}
}

// When a mount fails over one that is dead, the dead one is known to status, also if its record was
// lost, and a later mount replaces it.
func TestAMountThatFailsOverADeadOne(t *testing.T) {
	t.Parallel()
	for name, lost := range map[string]bool{"its record is there": false, "its record was lost": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newNode(t)
			server := n.volume(podUID, "data-server")
			mount := []string{"mount", server, options(podUID, "serves", "data")}
			n.must(mount...)
			layout, id := podfuse.Layout{RunDir: n.runDir}, volume.NewID(server)
			if ids, err := layout.ServerVolumes().IDs(); len(ids) != 1 || ids[0] != id {
				t.Fatalf("records: %v, %v", ids, err)
			}
			fifo := layout.FIFO(id)
			must(t, os.Remove(fifo))
			must(t, os.Mkdir(fifo, 0o700))
			if lost {
				must(t, layout.ServerVolumes().Delete(id))
			}
			if a := n.call(mount...); a.Status != "Failure" || !strings.Contains(a.Message, "is no FIFO") {
				t.Errorf("a directory is taken for a FIFO: %+v", a)
			}
			if volumes := n.status().Volumes; len(volumes) != 1 || n.isMounted(server) != 1 {
				t.Errorf("%d mounts, of volumes %+v", n.isMounted(server), volumes)
			}
			must(t, os.Remove(fifo))
			n.must(mount...)
			if count := n.isMounted(server); count != 1 {
				t.Errorf("%d mounts", count)
			}
		})
	}
}

func TestConcurrentCallOuts(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	const pods = 6
	var all sync.WaitGroup
	uid := func(i int) string { return fmt.Sprintf("00000000-0000-4000-8000-%012d", i) }
	for i := range pods {
		client, server := n.volume(uid(i), "data"), n.volume(uid(i), "data-server")
		for range 2 { // a kubelet that was started again repeats itself
			all.Go(func() { n.must("mount", client, options(uid(i))) })
			all.Go(func() { n.must("mount", server, options(uid(i), "serves", "data")) })
		}
	}
	all.Wait()
	if s := n.status(); len(s.Volumes) != 2*pods {
		t.Errorf("%d volumes, want %d: %+v", len(s.Volumes), 2*pods, s.Volumes)
	}
	for i := range pods {
		for _, name := range []string{"data", "data-server"} {
			dir := n.volume(uid(i), name)
			if count := n.isMounted(dir); count != 1 {
				t.Errorf("%d mounts on %s", count, dir)
			}
			for range 2 {
				all.Go(func() { n.must("unmount", dir) })
			}
		}
	}
	all.Wait()
	if output, err := n.command("stop").CombinedOutput(); err != nil {
		t.Errorf("stop: %v: %s", err, output)
	}
	n.isGone()
}

func TestWhatAServerVolumeHas(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	_, server := n.pod()
	for name, mode := range map[string]os.FileMode{
		"": os.ModeDir | 0o755, "socket": os.ModeSocket | 0o666, "fuse": os.ModeNamedPipe | 0o666, "pod-fuse": 0o755,
		"fusermount3": 0o755, "fusermount": 0o755, "mergerfs-fusermount": 0o755,
		"mnt": os.ModeDir | 0o777,
	} {
		if info, err := os.Lstat(filepath.Join(server, name)); err != nil || info.Mode() != mode {
			t.Errorf("%q: %v, mode %v, want %v", name, err, info, mode)
		}
	}
	if names, _ := filepath.Glob(server + "/*"); len(names) != 7 {
		t.Errorf("it has %q", names)
	}
	for line := range strings.Lines(read(t, "/proc/self/mountinfo")) {
		fields := strings.Fields(line)
		if strings.HasPrefix(fields[4], server) && fields[5] != "rw,relatime" {
			t.Errorf("%s is mounted with %s: a flag would be locked in a user namespace", fields[4], fields[5])
		}
	}
	// What the pod does, as another user, who finds the volume in a container.
	output, err := n.asUser(server, `exec 9<>fuse && test -r fuse && ./pod-fuse version && ./fusermount3 --version && ./pod-fuse ready --timeout 5s; echo "status $?"`)
	if err != nil || !strings.Contains(output, "pod-fuse 1.2.3\n") || !strings.Contains(output, "fusermount3 version") {
		t.Errorf("as user 1000: %v: %s", err, output)
	}
	// The socket answers: nobody serves.
	if !strings.HasSuffix(output, "status 1\n") || !strings.Contains(output, "no program has served it yet") {
		t.Errorf("ready: %s", output)
	}
}

// On a node, what the mounter has mounted may be shared. What is mounted for one volume is not in
// another one.
func TestServerVolumesWhereMountsAreShared(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.pod()
	layout := podfuse.Layout{RunDir: n.runDir}
	for _, path := range []string{layout.Servers(), layout.Launcher(), layout.SocketDir()} {
		must(t, unix.Mount("", path, "", unix.MS_SHARED, ""))
	}
	before := len(n.mounts())
	for i := range 3 {
		n.must("mount", n.volume(podUID, fmt.Sprint("server-", i)), options(podUID, "serves", "data"))
	}
	if got := len(n.mounts()) - before; got != 3*3 {
		t.Errorf("three server volumes are %d mounts more: %q", got, n.mounts())
	}
	for _, v := range n.status().Volumes {
		if v.State != "ok" {
			t.Errorf("status: %+v", v)
		}
	}
}

// A kubelet in a mount namespace of its own has its volumes on the node, and so the mounter is
// there.
func TestCallOutsOfAKubeletInAnotherMountNamespace(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	must(t, errors.Join(unix.Mount(n.kubelet, n.kubelet, "", unix.MS_BIND, ""), unix.Mount("", n.kubelet, "", unix.MS_SHARED, "")))
	defer unix.Unmount(n.kubelet, unix.MNT_DETACH)
	client, server := n.volume(podUID, "data"), n.volume(podUID, "data-server")
	calls := func(verb, dir string, more ...string) {
		t.Helper()
		args := append([]string{"--mount", "--propagation", "slave", "--cgroup", n.path, verb, dir}, more...)
		if output, err := exec.Command("unshare", args...).CombinedOutput(); err != nil || !strings.Contains(string(output), `"Success"`) {
			t.Errorf("%s %s: %v: %s", verb, dir, err, output)
		}
	}
	calls("mount", client, options(podUID))
	calls("mount", server, options(podUID, "serves", "data"))
	n.serves(client, server)
	if got := n.reads(client, server); got != "hello" {
		t.Errorf("read %q", got)
	}
	calls("unmount", server)
	calls("unmount", client)
}

// asUser executes a script as user 1000 in a container that has a volume as its working directory.
func (n node) asUser(dir, script string) (string, error) {
	text, err := exec.Command("unshare", "--mount", "sh", "-c", `mount -t tmpfs mnt /mnt && mkdir /mnt/v && mount --rbind "$1" /mnt/v && cd /mnt/v &&
exec setpriv --reuid 1000 --regid 1000 --clear-groups sh -c "$2"`, "sh", dir, script).CombinedOutput()
	return string(text), err
}

func TestBadMountIsAClearFailureAndLeavesNothing(t *testing.T) {
	t.Parallel()
	serves := []string{"serves", "data"}
	for _, row := range []struct {
		problem string
		args    func(n node, dir string) []string
		message string
	}{
		{"serves nothing", own("serves", ""), `"" is not the name of a volume`},
		{"serves a path", own("serves", "../data"), "is not the name of a volume"},
		{"serves a name with a capital", own("serves", "Data"), "is not the name of a volume"},
		{"serves a name of 254 letters", own("serves", strings.Repeat("a", 254)), "is not the name of a volume"},
		{"serves a name that begins with a dash", own("serves", "-data"), "is not the name of a volume"},
		{"wait without a unit", own("wait", "30"), `"30" is not a time such as 30s`},
		{"wait is a word", own("wait", "long"), `"long" is not a time`},
		{"wait before now", own("wait", "-1s"), `"-1s" is not a time`},
		{"wait of more than a day", own("wait", "25h"), "at most 24h"},
		{"default_permissions is a number", own("default_permissions", "1"), "neither true nor false"},
		{"a server that waits", own("serves", "data", "wait", "1s"), `"wait" is for the volume that is served`},
		{"a server with permissions", own("serves", "data", "default_permissions", "true"), `"default_permissions" is for the volume that is served`},
		{"an unknown option", own("serves", "data", "colour", "blue"), `"colour" is not known`},
		{"no pod", func(_ node, dir string) []string { return []string{dir, `{"serves":"data"}`} }, `"kubernetes.io/pod.uid" is missing`},
		{"a directory of another pod", func(n node, _ string) []string {
			return []string{n.volume("9c5b0b2b-0f7e-4a0e-8f0a-5d8c6b7a9e1f", "data-server"), options(podUID, serves...)}
		}, "belongs to pod"},
		{"a relative directory", func(_ node, dir string) []string { return []string{"volume", options(podUID, serves...)} }, "not an absolute path"},
		{"a directory with a detour", func(_ node, dir string) []string { return []string{dir + "/../v", options(podUID, serves...)} }, "shortest form"},
		{"a missing directory", func(_ node, dir string) []string { return []string{dir + "-2", options(podUID, serves...)} }, "does not exist"},
		{"a missing directory, of a client", func(_ node, dir string) []string { return []string{dir + "-2", options(podUID)} }, "does not exist"},
		{"a file", func(_ node, dir string) []string {
			os.WriteFile(dir+".file", nil, 0o600)
			return []string{dir + ".file", options(podUID, serves...)}
		}, "not a directory"},
		{"a link", func(_ node, dir string) []string {
			os.Symlink(dir, dir+".link")
			return []string{dir + ".link", options(podUID, serves...)}
		}, "symbolic link"},
		{"a foreign mount", func(n node, dir string) []string {
			must(n.t, unix.Mount("foreign", dir, "tmpfs", 0, ""))
			n.t.Cleanup(func() {
				if n.isMounted(dir) != 1 {
					n.t.Error("the foreign mount is gone, or covered")
				}
				unix.Unmount(dir, 0)
			})
			return []string{dir, options(podUID, serves...)}
		}, "is a mount point of something else; unmount that first"},
	} {
		t.Run(row.problem, func(t *testing.T) {
			t.Parallel()
			n := newNode(t)
			args := row.args(n, n.volume(podUID, "v"))
			if a := n.call(append([]string{"mount"}, args...)...); a.Status != "Failure" || !strings.Contains(a.Message, row.message) {
				t.Errorf("answer %+v, want a Failure with %q", a, row.message)
			}
			n.leftNothing()
		})
	}
}

// own is a mount with options of the pod's author.
func own(own ...string) func(n node, dir string) []string {
	return func(_ node, dir string) []string { return []string{dir, options(podUID, own...)} }
}

func TestADirectoryThatIsMountedForAnother(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	other := "9c5b0b2b-0f7e-4a0e-8f0a-5d8c6b7a9e1f"
	dir := filepath.Join(n.kubelet, "v") // not of the kubelet's form, which tells the pod
	must(t, os.Mkdir(dir, 0o755))
	n.must("mount", dir, options(podUID, "serves", "data"))
	for _, row := range []struct{ options, message string }{
		{options(other, "serves", "data"), "is mounted for another pod, " + podUID},
		{options(podUID), "is a mount point of something else"},
	} {
		if a := n.call("mount", dir, row.options); a.Status != "Failure" || !strings.Contains(a.Message, row.message) {
			t.Errorf("a server volume is there: %+v, want %s", a, row.message)
		}
	}
	if s := n.status(); n.isMounted(dir) != 1 || len(s.Volumes) != 1 || s.Volumes[0].PodUID != podUID || s.Volumes[0].State != "ok" {
		t.Errorf("it has become %+v", s.Volumes)
	}
	n.must("unmount", dir)
	n.must("mount", dir, options(podUID))
	if a := n.call("mount", dir, options(podUID, "serves", "data")); a.Status != "Failure" || !strings.Contains(a.Message, "is a mount point of something else") {
		t.Errorf("a client volume is there: %+v", a)
	}
	if s := n.status(); n.isMounted(dir) != 1 || len(s.Volumes) != 1 || s.Volumes[0].State != "ok" {
		t.Errorf("it has become %+v", s.Volumes)
	}
	n.must("unmount", dir)
}

func TestUnmountLeavesOthersMountsAlone(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	dir := n.volume(podUID, "data-server")
	n.must("mount", dir, options(podUID, "serves", "data"))
	must(t, unix.Mount("foreign", dir, "tmpfs", 0, ""))
	if a := n.call("unmount", dir); a.Status != "Failure" || !strings.Contains(a.Message, "something else") || n.isMounted(dir) != 2 {
		t.Errorf("%+v, %d mounts", a, n.isMounted(dir))
	}
	must(t, unix.Unmount(dir, 0))
	if s := n.status(); len(s.Volumes) != 1 || s.Volumes[0].State != "ok" {
		t.Errorf("it has become %+v", s.Volumes)
	}
	n.must("unmount", dir)
}

// The umask is the kubelet's, or that of who calls by hand. What the daemon has to read, it can
// read.
func TestAUmaskThatKeepsTheGroupOut(t *testing.T) {
	n := newNode(t)
	before := unix.Umask(0o077)
	defer unix.Umask(before)
	client, server := n.pod()
	n.serves(client, server)
	if got := n.reads(client, server); got != "hello" {
		t.Errorf("it reads %q", got)
	}
}

func TestAFullRunDirectory(t *testing.T) {
	outcomes := map[string]int{}
	for _, pages := range []int{1, 3, 5, 6, 7, 8, 9, 10, 12, 40} {
		n := newNode(t)
		must(t, os.MkdirAll(filepath.Dir(n.runDir), 0o755))
		must(t, unix.Mount("full", filepath.Dir(n.runDir), "tmpfs", 0, fmt.Sprintf("mode=755,size=%d", pages*os.Getpagesize())))
		dir := n.volume(podUID, "data-server")
		a := n.call("mount", dir, options(podUID, "serves", "data"))
		outcomes[a.Status]++
		switch {
		case a.Status == "Success" && n.isMounted(dir) != 1, a.Status == "Failure" && !strings.Contains(a.Message, "no space left on device"):
			t.Errorf("%d pages: %+v, %d mounts", pages, a, n.isMounted(dir))
		case a.Status == "Failure":
			if left, _ := filepath.Glob(n.runDir + "/server*/*.json"); n.isMounted(dir) != 0 || len(left) > 0 {
				t.Errorf("%d pages: %+v: left %d mounts, records %q", pages, a, n.isMounted(dir), left)
			}
		}
		n.must("unmount", dir)
		if output, err := n.command("stop").CombinedOutput(); err != nil {
			t.Errorf("%d pages: stop: %v: %s", pages, err, output)
		}
		n.isGone()
		must(t, unix.Unmount(filepath.Dir(n.runDir), 0))
	}
	if outcomes["Success"] == 0 || outcomes["Failure"] == 0 {
		t.Errorf("the sizes are of no use: %v", outcomes)
	}
}

// A container that shares the volume's mount with the host, as with mountPropagation:
// Bidirectional, is refused what the program serves, which would appear on the host. Other
// containers have it.
func TestAContainerWithBidirectionalMounts(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	client, server := n.pod()
	must(t, unix.Mount("", client, "", unix.MS_SHARED, ""))
	n.serves(client, server)
	if got := n.reads(client, server); got != "hello" {
		t.Errorf("read %q", got)
	}
	shares := n.inContainer(client, server, "timeout", "60", "cat", "/mnt/data/text")
	shares.Args = slices.Insert(shares.Args, 1, "--propagation", "unchanged")
	if output, err := shares.CombinedOutput(); err == nil || !strings.Contains(string(output), "not connected") {
		t.Errorf("where mounts go to the host: %v: %s", err, output)
	}
	for _, mounted := range n.mounts() {
		if strings.Contains(mounted, " - fuse data ") {
			t.Errorf("the host has %s", mounted)
		}
	}
}
