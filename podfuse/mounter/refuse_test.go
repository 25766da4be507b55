package mounter

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/internal/mount"
	"example.com/pod-info-fuse/internal/packet"
	"example.com/pod-info-fuse/podfuse/wire"
)

// A program can mount for itself where fusermount(1) would let it.
func TestOwnMountPoint(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.container(containerOptions{})
	for _, row := range []struct {
		path string
		user int
		want string // "": it is served
	}{
		{"/link", 0, "symbolic link"},
		{"/link/below", 1000, "symbolic link"},
		{"/file", 0, "not a directory"},
		{"/nothing", 0, "no such file"},
		{"/", 0, "absolute path"},
		{"m", 0, "absolute path"},
		{"/m/../m", 0, "absolute path"},
		{"/etc", 1000, "may not write"},
		{"/tmp", 1000, "sticky"},
		{"/theirs", 1000, "sticky"},
		{"/mine", 1001, "may not write"},
		{"/mine", 1000, ""},
		{"/m", 1000, ""},
		{"/run/pod-fuse/mnt", 1000, ""},
		{"/run/pod-fuse/mnt", 1001, ""},
		{"/run/pod-fuse/mnt", 0, ""},
		{"/run/pod-fuse", 1000, "read-only file system"},
		{"/run/pod-fuse", 0, "read-only file system"},
		{"/etc", 0, ""},
	} {
		what := fmt.Sprintf("user %d on %s", row.user, row.path)
		if row.want == "" {
			generation := c.serve(launchOptions{User: row.user, Mountpoint: row.path, Text: "own"})
			if text, err := c.read(row.path + "/text"); text != "own" {
				t.Errorf("%s: %q, %v", what, text, err)
			}
			c.killProgram()
			w.died(generation)
			must(t, w.client.Forget(w.data.ID()))
		} else if answer := c.refused(row.user, launchOptions{Mountpoint: row.path}); !strings.Contains(answer, row.want) {
			t.Errorf("%s: %q, want %q", what, answer, row.want)
		}
		if mounts := c.mounts("fuse"); len(mounts) > 0 {
			t.Errorf("%s: left: %q", what, mounts)
		}
		if status := w.now(); len(status.Volumes) > 0 {
			t.Errorf("%s: left: %+v", what, status)
		}
	}
}

// Nobody mounts on a file system of the kernel's own, on which runtimes rely when they enter the
// container, nor where nothing can be written to: not even root, whose directory it is.
func TestNoMountPointOnProc(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.container(containerOptions{})
	namespace, err := mount.Of(c.pid)
	must(t, err)
	must(t, namespace.Do(func() error {
		for _, dir := range []string{"/tmp/sys", "/tmp/bound", "/tmp/sealed", "/tmp/tmpfs"} {
			if err := errors.Join(os.Mkdir(dir, 0o777), unix.Chmod(dir, 0o777)); err != nil {
				return err
			}
		}
		return errors.Join(
			unix.Mount("sys", "/tmp/sys", "sysfs", 0, ""),
			unix.Mount("/tmp/bound", "/tmp/bound", "", unix.MS_BIND, ""),
			unix.Mount("", "/tmp/bound", "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, ""),
			unix.Mount("sealed", "/tmp/sealed", "tmpfs", unix.MS_RDONLY, "mode=0777"),
			unix.Mount("", "/tmp/sealed", "", unix.MS_REMOUNT|unix.MS_BIND, ""), // its superblock alone is read-only
			unix.Mount("tmpfs", "/tmp/tmpfs", "tmpfs", 0, "mode=0777"))
	}))
	const ofTheKernel, readOnly = "such as proc, have no mount points; take the directory mnt of", "read-only file system; take the directory mnt of the server volume"
	for _, user := range []int{0, 1000} {
		for _, row := range []struct{ path, want string }{
			{"/tmp/bound", readOnly}, {"/tmp/sealed", readOnly}, {"/tmp/sys", ofTheKernel}, {"/tmp/sys/kernel", ofTheKernel},
			{"/proc", ofTheKernel}, {"/proc/1", ofTheKernel}, {"/proc/sys", ofTheKernel}, {"/proc/self", "symbolic link"},
		} {
			answer := c.refused(user, launchOptions{Mountpoint: row.path})
			if what := fmt.Sprintf("user %d on %s: %q, want %q", user, row.path, answer, row.want); answer == "served" {
				t.Fatal(what) // what comes next in the container might hang
			} else if !strings.Contains(answer, row.want) {
				t.Error(what)
			}
		}
		if mounts := c.mounts("fuse"); len(mounts) > 0 {
			t.Fatalf("left: %q", mounts)
		}
		for _, path := range []string{"/tmp/tmpfs", "/m"} {
			generation := c.serve(launchOptions{User: user, Mountpoint: path, Text: "own"})
			if text, err := c.read(path + "/text"); text != "own" {
				t.Errorf("user %d on %s: %q, %v", user, path, text, err)
			}
			c.killProgram()
			w.died(generation)
			must(t, w.client.Forget(w.data.ID()))
		}
	}
}

func TestRefusedOptions(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.container(containerOptions{})
	for want, o := range map[string]wire.Options{
		"is no subtype":     {Subtype: "a,allow_root"},
		`"a#b" is no`:       {Subtype: "a#b"}, // as the pair says
		`".a" is no`:        {Subtype: ".a"},
		"this driver's own": {Subtype: "pod-fuse"},
		"less than 0":       {MaxRead: -1},
	} {
		if answer := c.refused(0, launchOptions{Options: o}); !strings.Contains(answer, want) {
			t.Errorf("%+v: %q, want %q", o, answer, want)
		}
	}
	generation := c.serve(launchOptions{Mountpoint: "/m", Options: wire.Options{Subtype: "some", ReadOnly: true, NoExec: true, DefaultPermissions: true, MaxRead: 8192}})
	if problem := w.attach(generation, c.pid); problem != "" {
		t.Error(problem)
	}
	mounts := c.mounts("fuse.some")
	if len(mounts) != 2 {
		t.Fatalf("%q", mounts)
	}
	for _, mount := range mounts { // at the program's own mount point, and for readers
		for _, want := range []string{" data ", "ro", "nosuid", "nodev", "noexec", "allow_other", "default_permissions", "max_read=8192", "user_id=0"} {
			if !strings.Contains(mount, want) {
				t.Errorf("%s: no %q", mount, want)
			}
		}
	}
}

// The pair could be in the hands of a pod. What it does not get is in the log, for who looks for
// the reason.
func TestHostileOrders(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const otherUID = "99999999-2222-3333-4444-555555555555"
	otherData, otherServer := w.mount("data", otherUID)
	c := w.container(containerOptions{})
	other := w.container(containerOptions{Client: otherData.ID(), Server: otherServer.ID()})
	w.mountOnHost(w.data)
	host := w.container(containerOptions{HostView: filepath.Dir(w.data.Dir)})
	generation := c.serve(launchOptions{Text: "good"})

	must(t, send(w.link, []byte("garbage")))
	w.logs(0, "refused: ", `"garbage"`)
	must(t, send(w.link, []byte(`{"kind":"serve","ticket":"x"}`)))
	w.logs(0, "refused: ", "ticket")
	if err := send(w.link, make([]byte, packet.Max+1)); err != nil {
		t.Error(err)
	}
	w.logs(0, "refused: ", packet.ErrTooLong.Error())
	null, err := os.Open(os.DevNull)
	must(t, err)
	defer null.Close()
	ours, theirs, err := packet.Pair()
	must(t, err)
	defer ours.Close()
	defer theirs.Close()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	must(t, err)
	stream := os.NewFile(uintptr(fds[0]), "stream")
	defer stream.Close()
	defer unix.Close(fds[1])

	data, server := w.data.ID(), w.server.ID()
	for name, row := range map[string]struct {
		order  wire.Order
		files  []*os.File
		want   string
		atOnce bool // the order alone shows that it is refused
	}{
		"unknown":                        {wire.Order{Kind: "mount"}, nil, "no such order", true},
		"serve, no socket":               {wire.Order{Kind: wire.Serve, Server: server}, nil, "without the socket", true},
		"serve, two sockets":             {wire.Order{Kind: wire.Serve, Server: server}, []*os.File{ours, theirs}, "more than one descriptor", true},
		"serve, no socket but a device":  {wire.Order{Kind: wire.Serve, Server: server}, []*os.File{null}, "no socket", true},
		"serve, a stream":                {wire.Order{Kind: wire.Serve, Server: server}, []*os.File{stream}, "no socket of packets", true},
		"serve, a process of the host":   {wire.Order{Kind: wire.Serve, Server: server}, []*os.File{ours}, "does not have server volume", false},
		"serve, an unknown volume":       {wire.Order{Kind: wire.Serve, Server: 17}, []*os.File{ours}, "no such server volume", false},
		"serve, a client volume":         {wire.Order{Kind: wire.Serve, Server: data}, []*os.File{ours}, "no such server volume", false},
		"attach with a descriptor":       {wire.Order{Kind: wire.Attach, Volume: data, Generation: generation, PID: c.pid}, []*os.File{null}, "with descriptors", true},
		"attach on the host":             {wire.Order{Kind: wire.Attach, Volume: data, Generation: generation, PID: os.Getpid()}, nil, "no container's", false},
		"attach in the host's view":      {wire.Order{Kind: wire.Attach, Volume: data, Generation: generation, PID: host.pid}, nil, "no container's", false},
		"attach to the first process":    {wire.Order{Kind: wire.Attach, Volume: data, Generation: generation, PID: 1}, nil, "volume", false}, // it may be in our mount namespace
		"attach to a negative":           {wire.Order{Kind: wire.Attach, Volume: data, Generation: generation, PID: -1}, nil, "no process", false},
		"attach to one that is not":      {wire.Order{Kind: wire.Attach, Volume: data, Generation: generation, PID: 1 << 22}, nil, "no such file", false},
		"attach in another pod":          {wire.Order{Kind: wire.Attach, Volume: data, Generation: generation, PID: other.pid}, nil, "does not have volume", false},
		"attach another pod's volume":    {wire.Order{Kind: wire.Attach, Volume: otherData.ID(), Generation: generation, PID: other.pid}, nil, "does not serve", false},
		"attach another generation":      {wire.Order{Kind: wire.Attach, Volume: data, Generation: generation - 1, PID: c.pid}, nil, "does not serve", false},
		"attach an unknown volume":       {wire.Order{Kind: wire.Attach, Volume: 17, Generation: generation, PID: c.pid}, nil, "no such file", false},
		"unmount of a process elsewhere": {wire.Order{Kind: wire.Unmount, Server: server, Mountpoint: "/m"}, []*os.File{ours}, "does not have server volume", false},
	} {
		before := len(w.log())
		ticket := w.order(row.order, row.files...)
		if e := w.answered(ticket, name); !strings.Contains(e.Error, row.want) {
			t.Errorf("%s: %q, want %q", name, e.Error, row.want)
		}
		begin, end := string(row.order.Kind)+" of volume ", "(failure "
		if row.atOnce {
			begin, end = "refused: "+begin, ""
		}
		w.logs(before, begin, row.want, end)
	}
	// An order is kept in a packet, which has more than the order's.
	before := w.status("a spare", func(s Status) bool { return s.Spare != 0 })
	long := wire.Order{Kind: wire.Unmount, Ticket: w.ticket(), Server: server, Mountpoint: "/"}
	for {
		longer := long
		longer.Mountpoint += "<" // JSON has six bytes for it
		if _, err := packet.Encode(longer); err != nil {
			break
		}
		long = longer
	}
	must(t, w.link.Send(hang, long, ours))
	w.order(wire.Order{Kind: wire.Spent, Volume: data, Generation: generation})
	w.logs(0, "refused: spent of volume "+data.String(), "its program lives")
	w.order(wire.Order{Kind: wire.Spent, Volume: 17, Generation: 4})
	w.order(wire.Order{Kind: wire.Counts, Volume: data, Waiting: -7})
	w.order(wire.Order{Kind: wire.Counts, Volume: 18, Waiting: 7})

	// A program of another pod asks by its own socket for this pod's volume.
	if answer := other.refused(0, launchOptions{Server: server}); !strings.Contains(answer, "does not have server volume") {
		t.Errorf("another pod's program: %q", answer)
	}
	if problem := w.attach(generation, c.pid); problem != "" {
		t.Fatal(problem)
	}
	if text, err := c.read("/data/text"); text != "good" {
		t.Errorf("after all that: %q, %v", text, err)
	}
	for _, c := range []*pod{other, host} {
		if mounts := c.mounts("fuse"); len(mounts) > 0 {
			t.Errorf("in another container: %q", mounts)
		}
	}
	if status := w.now(); len(status.Volumes) != 1 || status.Spare != before.Spare {
		t.Errorf("left: %+v, of %+v", status, before)
	}
}

// Where the kubelet's path has a link in it, mountinfo shows another path, and a container that has
// these directories a third one. A container may have the volume on a path like the kubelet's.
func TestTheHostIsKnownOverALink(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	pods := filepath.Join(w.client.RunDir, "kubelet", "pods")
	disk := filepath.Join(w.client.RunDir, "disk")
	must(t, errors.Join(os.Mkdir(disk, 0o755), os.Mkdir(filepath.Dir(pods), 0o755), os.Symlink(disk, pods)))
	w.mountOnHost(w.data)
	before := w.hostMounts()
	c := w.container(containerOptions{Alike: w.data.Dir})
	agent := w.container(containerOptions{HostView: disk})
	generation := c.serve(launchOptions{Text: "good"})
	for who, pid := range map[string]int{"the host": os.Getpid(), "a node agent": agent.pid} {
		if problem := w.attach(generation, pid); !strings.Contains(problem, "no container's") {
			t.Errorf("%s: %q", who, problem)
		}
	}
	if after := w.hostMounts(); after != before {
		t.Errorf("the host has mounted\n%s, and had\n%s", after, before)
	}
	if problem := w.attach(generation, c.pid); problem != "" {
		t.Errorf("the container: %s", problem)
	}
	if text, err := c.read(w.data.Dir + "/text"); text != "good" {
		t.Errorf("in the container: %q, %v", text, err)
	}
}

// A process that has the server volume where the host has it may not ask, be it by a link.
func TestAProcessOfTheHostMayNotServe(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	pods := filepath.Join(w.client.RunDir, "kubelet", "pods")
	disk := filepath.Join(w.client.RunDir, "disk")
	must(t, errors.Join(os.Mkdir(disk, 0o755), os.Mkdir(filepath.Dir(pods), 0o755), os.Symlink(disk, pods), os.MkdirAll(w.server.Dir, 0o755)))
	for _, mounted := range [][2]string{{w.client.Shared(), ""}, {w.client.FIFO(w.server.ID()), wire.Device}} {
		at := filepath.Join(w.server.Dir, mounted[1])
		must(t, unix.Mount(mounted[0], at, "", unix.MS_BIND, ""))
		t.Cleanup(func() { must(t, unix.Unmount(at, unix.MNT_DETACH)) })
	}
	conn, err := net.Dial("unixpacket", w.client.Socket())
	must(t, err)
	defer conn.Close()
	request, err := packet.Encode(wire.Request{Format: 1, Kind: wire.Serve, Server: w.server.ID()})
	must(t, err)
	_, err = conn.Write(request)
	must(t, err)
	answer := make([]byte, packet.Max)
	must(t, conn.SetReadDeadline(time.Now().Add(hang)))
	if n, err := conn.Read(answer); err != nil || !strings.Contains(string(answer[:n]), "is in no container") {
		t.Errorf("%s, %v", answer[:n], err)
	}
}

// What is mounted below a mount that a container shares with the host, as with mountPropagation:
// Bidirectional, appears on the host, where the kubelet and df(1) would wait for the program. So
// nothing is mounted there, be it the volume or the program's own mount point; and who is refused
// reads why.
func TestBidirectionalIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	kubelets, own := w.data.Dir, w.client.RunDir+"/own"
	w.share(filepath.Join(w.client.FS(), w.data.ID().String()), kubelets)
	must(t, os.Mkdir(own, 0o777))
	w.share(own, own)
	before := w.hostMounts()
	// As the mount on /data is on top of one that is not shared, and older, a list of mounts has
	// them in the other order.
	shares := w.container(containerOptions{Shared: map[string]string{"/data": kubelets, "/mine": own}})
	receives := w.container(containerOptions{Receiving: map[string]string{"/data": kubelets, "/mine": own}})
	unchanged := func(when string) {
		t.Helper()
		if after := w.hostMounts(); after != before {
			t.Errorf("%s: the host has mounted\n%s, and had\n%s", when, after, before)
		}
		for _, mounted := range shares.mounts("fuse") {
			if !strings.Contains(mounted, " /m ") {
				t.Errorf("%s: the container that shares has %s", when, mounted)
			}
		}
	}
	const what, remedy = " would appear on the host", "remove mountPropagation: Bidirectional from the container"
	for path, shared := range map[string]string{"/mine": "/mine", "/mine/below": "/mine", "/data/below": "/data"} {
		answer := shares.refused(0, launchOptions{Mountpoint: path})
		if !strings.Contains(answer, "what is mounted on "+path+what+", because the mount on "+shared+" is shared") || !strings.Contains(answer, remedy) {
			t.Errorf("a program that mounts on %s: %q", path, answer)
		}
		unchanged("a program that mounts on " + path)
	}

	// A program that mounts elsewhere serves, and other containers have the volume.
	generation := shares.serve(launchOptions{Mountpoint: "/m", Text: "one"})
	problem := w.attach(generation, shares.pid)
	if !strings.Contains(problem, "what is mounted on /data in the container"+what) || !strings.Contains(problem, remedy) {
		t.Errorf("attach: %q", problem)
	}
	unchanged("attach")
	if problem := w.attach(generation, receives.pid); problem != "" {
		t.Errorf("attach where mounts do not go to the host: %s", problem)
	}
	if text, err := receives.read("/data/text"); text != "one" {
		t.Errorf("where mounts do not go to the host: %q, %v", text, err)
	}
	if problem := w.attach(generation, 0); problem != "" { // wherever a former program's mount is
		t.Errorf("attach in all containers: %s", problem)
	}
	unchanged("all")
}

// share has a mount of the host's in a place, whose peers get what is mounted there.
func (w *world) share(from, at string) {
	w.t.Helper()
	must(w.t, os.MkdirAll(at, 0o755))
	must(w.t, unix.Mount(from, at, "", unix.MS_BIND, ""))
	w.t.Cleanup(func() {
		for unix.Unmount(at, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW) == nil { // and what has come from a container
		}
	})
	must(w.t, unix.Mount("", at, "", unix.MS_SHARED, ""))
}

// hostMounts is what is mounted below the run directory where the mounter is.
func (w *world) hostMounts() (found string) {
	w.t.Helper()
	table, err := os.ReadFile("/proc/self/mountinfo")
	must(w.t, err)
	for line := range strings.Lines(string(table)) {
		if strings.Contains(line, w.client.RunDir) {
			found += line
		}
	}
	return found
}

// log is what the mounter has logged.
func (w *world) log() string {
	w.t.Helper()
	text, err := os.ReadFile(filepath.Join(w.client.RunDir, "log"))
	must(w.t, err)
	return string(text)
}

// logs waits for a line of the log, behind so many bytes, with all these words.
func (w *world) logs(after int, words ...string) {
	w.t.Helper()
	eventually(w.t, fmt.Sprintf("the log has a line with %q", words), func() bool {
		for line := range strings.Lines(w.log()[after:]) {
			if !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(line, word) }) {
				return true
			}
		}
		return false
	})
}

// The pod that a process is in counts, whatever it has mounted.
func TestWrongPod(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.container(containerOptions{})
	generation := c.serve(launchOptions{})
	const otherUID = "99999999-2222-3333-4444-555555555555"
	procs := w.podGroup(otherUID)
	inner := w.container(containerOptions{})
	inner.group = procs
	must(t, os.WriteFile(procs, fmt.Appendln(nil, inner.pid), 0))
	if problem := w.attach(generation, inner.pid); !strings.Contains(problem, "is in pod 99999999") {
		t.Errorf("attach: %q", problem)
	}
	cmd := inner.exec(0, "asker", fmt.Sprintf(`{"Server":%d}`, w.server.ID()))
	if output, _ := cmd.CombinedOutput(); !strings.Contains(string(output), "is in pod 99999999") {
		t.Errorf("serve: %q", output)
	}
}

// A container with more mounts than the pair reads has the host's view there, where nobody waits.
// The mounter takes it for one that has no volume, too.
func TestAContainerWithManyMounts(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.container(containerOptions{Many: 200})
	generation := c.serve(launchOptions{Text: "one"})
	if problem := w.attach(generation, c.pid); problem != "" {
		t.Fatal(problem)
	}
	if text, err := c.read("/data/text"); text != "one" {
		t.Errorf("%q, %v", text, err)
	}
	many := w.container(containerOptions{Many: wire.MostMounts / 200})
	const want = "the container has too many mounts; start it anew with fewer"
	if problem := w.attach(generation, many.pid); !strings.Contains(problem, want) {
		t.Errorf("attach: %q, want %q", problem, want)
	}
	if problem := w.attach(generation, 0); problem != "" {
		t.Errorf("attach wherever a program's mount is: %q", problem)
	}
	if answer := many.refused(0, launchOptions{}); !strings.Contains(answer, want) {
		t.Errorf("serve: %q, want %q", answer, want)
	}
	if mounts := many.mounts("fuse"); len(mounts) > 0 {
		t.Errorf("it has %q", mounts)
	}
}

func send(s *packet.Socket, text []byte) (err error) {
	controlErr := s.Control(func(fd int) { err = unix.Sendmsg(fd, text, nil, nil, unix.MSG_NOSIGNAL) })
	if err == nil {
		err = controlErr
	}
	return err
}

// Of mounts on top of each other, a path leads to that which covers the others, whatever their
// order in the list.
func TestMountAt(t *testing.T) {
	const table = `1 0 0:1 / / rw - tmpfs x rw
7 1 0:2 / /a rw - tmpfs x rw
3 7 0:3 / /a rw - tmpfs x rw
8 7 0:4 / /a/hidden rw - tmpfs x rw
4 3 0:5 / /a/b rw - tmpfs x rw
6 1 0:6 / /ab rw - tmpfs x rw
`
	const covered = "5 1 0:7 / / rw - tmpfs x rw\n9 5 0:8 / /top rw - tmpfs x rw\n" // the root directory is, too
	for text, want := range map[string]map[string]int{
		table:           {"/a": 3, "/a/hidden/x": 3, "/a/b": 4, "/a/bc": 3, "/ab": 6, "/b": 1},
		table + covered: {"/a/hidden": 5, "/a/b": 5, "/top": 9, "/top/x": 9, "/x": 5},
	} {
		mounts, err := mountinfo.GetMountsFromReader(strings.NewReader(text), nil)
		must(t, err)
		for path, id := range want {
			if at := mountAt(path, mounts); at == nil || at.ID != id {
				t.Errorf("%s is in mount %+v, want %d, of\n%s", path, at, id, text)
			}
		}
	}
	if at := mountAt("/a", nil); at != nil {
		t.Errorf("%+v", at)
	}
}

// A pod that asks without end for a mount point that has a link on its way does not fill the node's
// log.
func TestRefusalsFillNoLog(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.container(containerOptions{})
	const times, most = 60, 50 // the order fails, and so does the removal of what was not mounted: twice twenty lines
	before := len(w.log())
	for range times {
		c.refused(0, launchOptions{Mountpoint: "/proc/self/root/tmp"})
	}
	if lines := strings.Count(w.log()[before:], "\n"); lines > most {
		t.Errorf("%d lines of %d refusals:\n%.2000s", lines, times, w.log()[before:])
	}
}
