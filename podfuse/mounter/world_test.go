package mounter

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	gofs "github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/e2e/slowclose"
	"example.com/pod-info-fuse/internal/calllog"
	"example.com/pod-info-fuse/internal/mount"
	"example.com/pod-info-fuse/internal/packet"
	"example.com/pod-info-fuse/internal/proc"
	"example.com/pod-info-fuse/podfuse"
	"example.com/pod-info-fuse/podfuse/wire"
	"example.com/pod-info-fuse/survive/volume"
)

// The test binary is also all other processes: the mounter and its children, the first
// process of a container, a launcher and its program, and a reader.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		if run := Internal(os.Args[1]); run != nil {
			pauseAt(os.Getenv("PAUSE"))
			if os.Getenv("LATE") == "" {
				grace, lookAgain = time.Hour, time.Hour // what is noticed, is at once
				if os.Getenv("CHECKS") == "" {
					firstCheck = time.Hour
				}
			}
			if os.Getenv("NORESEND") != "" {
				resend = func(int) error { return unix.EINVAL }
			}
			attackOf(os.Getenv("ATTACK"))
			if os.Getenv("LINUX") == "6.4" {
				peerPIDFD = func(int) (int, error) { return -1, unix.ENOPROTOOPT }
			}
			exit(run(os.Args[2:]))
		}
		if run := roles[os.Args[1]]; run != nil {
			exit(run(os.Args[2:]))
		}
	}
	if os.Getenv("REAPED") == "" {
		os.Exit(reap())
	}
	os.Exit(m.Run())
}

// reap runs the tests below a process that waits for orphans: a container does not end before
// somebody has waited for each process in its PID namespace.
func reap() int {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	// Most tests wait: for a program, a death, or that nothing happens.
	args := append([]string{os.Args[0], "-test.parallel=8"}, os.Args[1:]...)
	process, err := os.StartProcess("/proc/self/exe", args, &os.ProcAttr{
		Env: append(os.Environ(), "REAPED=1"), Files: []*os.File{os.Stdin, os.Stdout, os.Stderr},
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, 0, nil)
		if pid == process.Pid {
			return status.ExitStatus()
		} else if err != nil && err != unix.EINTR {
			return 1
		}
	}
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, os.Args[1], err)
		os.Exit(1)
	}
	os.Exit(0)
}

var roles = map[string]func([]string) error{
	"container": containerMain, "launcher": launcherMain, "program": programMain, "asker": askerMain,
	"sleeper":      func([]string) error { time.Sleep(time.Hour); return nil },
	slowclose.Verb: slowclose.Main,
	"sender":       senderMain,
	"everyname":    everyNameMain,
	"hider":        hiderMain,
	"quitter":      quitterMain,
	"connector":    connectorMain,
	"reader":       readerMain,
	"elsewhere":    elsewhereMain,
	"unshare":      unshareMain,
	"remounter":    remounterMain,
	"holder":       holderMain,
}

// pauseAt has the mounter stop at some steps, "step=file,step=file", at each once: it makes the
// file, and waits until somebody has it goOn.
func pauseAt(steps string) {
	files := map[string]string{}
	for one := range strings.SplitSeq(steps, ",") {
		step, file, _ := strings.Cut(one, "=")
		files[step] = file
	}
	pause = func(now string) {
		f, err := os.OpenFile(files[now], os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if err != nil {
			return
		}
		fmt.Fprint(f, os.Getpid())
		f.Close()
		for text := []byte(nil); string(text) != goOn; time.Sleep(5 * time.Millisecond) {
			text, _ = os.ReadFile(files[now])
		}
	}
}

const goOn = "go on"

// stopsAt has the mounters of a world with this variable stop at steps, each the first time that
// one comes there. awaits returns when it has, and lets has it go on.
func stopsAt(t *testing.T, steps ...string) (awaits, lets func(step string), variable string) {
	t.Helper()
	dir := t.TempDir()
	awaits = func(step string) {
		t.Helper()
		eventually(t, "the mounter is at "+step, func() bool { return pausedAt(dir, step) != 0 })
	}
	lets = func(step string) { t.Helper(); must(t, os.WriteFile(filepath.Join(dir, step), []byte(goOn), 0o600)) }
	return awaits, lets, pausesIn(dir, steps...)
}

// killsAt has the first mounter killed that comes to a step, in a world with this variable. killed
// has whether that was done, or is closed.
func killsAt(t *testing.T, step string) (killed <-chan bool, variable string) {
	t.Helper()
	dir, done := t.TempDir(), make(chan bool, 1)
	go func() {
		defer close(done)
		for began := time.Now(); time.Since(began) < hang; time.Sleep(5 * time.Millisecond) {
			if pid := pausedAt(dir, step); pid != 0 {
				done <- unix.Kill(pid, unix.SIGKILL) == nil
				return
			}
		}
	}()
	return done, pausesIn(dir, step)
}

// pausesIn is the variable with which mounters pause at steps, each with a file of that name.
func pausesIn(dir string, steps ...string) (variable string) {
	var all []string
	for _, step := range steps {
		all = append(all, step+"="+filepath.Join(dir, step))
	}
	return "PAUSE=" + strings.Join(all, ",")
}

// pausedAt is the PID of the mounter that is at a step; 0: there is none.
func pausedAt(dir, step string) (pid int) {
	text, _ := os.ReadFile(filepath.Join(dir, step))
	_, _ = fmt.Sscan(string(text), &pid)
	return pid
}

const (
	podUID   = "11111111-2222-3333-4444-555555555555"
	source   = "example.com/pod-fuse"
	thisTest = "1.0"
	// hang is how long is waited for what takes milliseconds on a machine that has nothing else to
	// do.
	hang = time.Minute
)

// world is a node, with a pair that the test plays.
type world struct {
	t      *testing.T
	client Client
	events chan got
	link   *packet.Socket
	pods   net.Listener
	tick   uint64
	server volume.Record // of volume "data"
	data   volume.Record
	groups map[string]string // the files cgroup.procs of pods, by their UIDs
	number int64             // of this world: others have other pods

	accepted *atomic.Int64 // connections of pods
}

var worlds atomic.Int64

// own is the UID of a pod in this world.
func (w *world) own(uid string) string {
	return fmt.Sprintf("%s%012d", uid[:len(uid)-12], w.number)
}

type got struct {
	wire.Event
	files []*os.File
}

// newWorld is one whose mounter has some variables; see TestMain.
func newWorld(t *testing.T, variables ...string) *world {
	t.Helper()
	if os.Getuid() != 0 {
		t.Fatal("this test mounts: run it as root")
	}
	dir := t.TempDir()
	w := &world{t: t, events: make(chan got, 100), accepted: new(atomic.Int64), number: worlds.Add(1)}
	w.client = Client{Config: Config{podfuse.Layout{RunDir: dir}, "fuse.pod-fuse", source, thisTest}, Log: calllog.New("test", filepath.Join(dir, "log")), more: variables}
	for _, d := range []string{"volumes", "server-volumes", "fs"} {
		must(t, os.Mkdir(filepath.Join(dir, d), 0o755))
	}
	t.Cleanup(func() {
		if t.Failed() {
			log, _ := os.ReadFile(filepath.Join(dir, "log"))
			t.Logf("log:\n%s", log)
		}
	})
	t.Cleanup(w.checkLeft)
	w.nodeMount(w.client.FS())
	w.start()
	w.data, w.server = w.mount("data", podUID)
	return w
}

// start ensures the mounter, and connects the pair.
func (w *world) start() {
	w.t.Helper()
	_, err := w.client.Ensure()
	must(w.t, err)
	w.t.Cleanup(func() {
		if err := w.client.Stop(); err != nil {
			w.t.Errorf("stop: %v", err)
		}
	})
	w.connect()
}

func (w *world) connect() {
	w.t.Helper()
	files, err := w.client.Give()
	must(w.t, err)
	w.pods, err = net.FileListener(files[0])
	must(w.t, err)
	w.link, err = packet.New(files[1])
	must(w.t, err)
	packet.Close(files)
	w.t.Cleanup(func() { w.pods.Close(); w.link.Close() })
	link, pods := w.link, w.pods
	go func() {
		for {
			text, files, err := link.Receive(time.Time{})
			if err != nil {
				return
			}
			var e wire.Event
			if packet.Decode(text, &e) == nil {
				w.events <- got{e, files}
			}
		}
	}()
	go func() {
		for {
			conn, err := pods.Accept()
			if err != nil {
				return
			}
			accepted := wire.SinceBoot()
			w.accepted.Add(1)
			go w.pass(conn.(*net.UnixConn), accepted)
		}
	}()
	must(w.t, w.link.Send(hang, wire.Order{Kind: wire.Hello}))
}

// pass has the mounter answer a pod's request.
func (w *world) pass(conn *net.UnixConn, accepted time.Duration) {
	file, err := conn.File()
	if err != nil {
		return
	}
	defer file.Close()
	socket, err := packet.Over(conn)
	if err != nil {
		return
	}
	defer socket.Close()
	text, files, err := socket.Receive(time.Now().Add(hang))
	packet.Close(files) // which a pair does not open
	var r wire.Request
	if err == nil {
		err = packet.Decode(text, &r)
	}
	if err == nil {
		err = w.link.Send(hang, wire.Order{Kind: r.Kind, Ticket: w.ticket(), Server: r.Server, Options: r.Options, Mountpoint: r.Mountpoint, Accepted: accepted}, file)
	}
	if err != nil {
		w.t.Logf("pass: %v", err)
	}
}

func (w *world) ticket() uint64 {
	w.tick++
	return w.tick<<16 + uint64(time.Now().UnixNano())<<32
}

func (w *world) order(o wire.Order, files ...*os.File) uint64 {
	w.t.Helper()
	o.Ticket = w.ticket()
	must(w.t, w.link.Send(hang, o, files...))
	return o.Ticket
}

// event waits for one.
func (w *world) event(kind wire.Kind) got {
	w.t.Helper()
	for {
		select {
		case e := <-w.events:
			if e.Kind == kind {
				return e
			}
			packet.Close(e.files)
		case <-time.After(hang):
			w.t.Fatalf("no event %q", kind)
		}
	}
}

// answered waits for the answer to an order.
func (w *world) answered(ticket uint64, what string) got {
	w.t.Helper()
	for {
		select {
		case e := <-w.events:
			if e.Ticket == ticket {
				return e
			}
		case <-time.After(hang):
			w.t.Fatalf("%s: no answer", what)
		}
	}
}

// attach orders, and returns the answer's error. As the pair does, it orders again when a child has
// had no time, or the container's mounts have changed.
func (w *world) attach(generation uint64, pid int) (problem string) {
	w.t.Helper()
	for began := time.Now(); time.Since(began) < hang; {
		ticket := w.order(wire.Order{Kind: wire.Attach, Volume: w.data.ID(), Generation: generation, PID: pid})
		problem = w.answered(ticket, "attach").Error
		if problem != errHangs.Error() && !strings.HasPrefix(problem, errAgain.Error()) {
			break
		}
	}
	return problem
}

// mount records a client volume and its server volume, as call-outs do.
func (w *world) mount(name, uid string) (client, server volume.Record) {
	w.t.Helper()
	uid = w.own(uid)
	dir := filepath.Join(w.client.RunDir, "kubelet", "pods", uid, "volumes", "example.com~pod-fuse")
	attributes, _ := json.Marshal(podfuse.Attributes{Format: 1})
	client = volume.Record{Dir: filepath.Join(dir, name), PodUID: uid, Name: name, Attributes: attributes}
	must(w.t, w.client.Clients().Put(client))
	attributes, _ = json.Marshal(podfuse.Attributes{Format: 1, Serves: name})
	server = volume.Record{Dir: filepath.Join(dir, name+"-server"), PodUID: uid, Name: name + "-server", Attributes: attributes}
	must(w.t, w.client.ServerVolumes().Put(server))
	must(w.t, unix.Mkfifo(w.client.FIFO(server.ID()), 0o666))
	return client, server
}

// mountOnHost mounts what the host has of a volume on the kubelet's directory.
func (w *world) mountOnHost(record volume.Record) {
	w.t.Helper()
	must(w.t, os.MkdirAll(record.Dir, 0o755))
	must(w.t, unix.Mount(filepath.Join(w.client.FS(), record.ID().String()), record.Dir, "", unix.MS_BIND, ""))
	w.t.Cleanup(func() {
		for unix.Unmount(record.Dir, unix.MNT_DETACH) == nil { // and what should not be there
		}
	})
}

// nodeMount serves stand-ins as empty directories.
func (w *world) nodeMount(dir string) {
	w.t.Helper()
	server, err := gofs.Mount(dir, &everyName{}, &gofs.Options{MountOptions: fuse.MountOptions{
		Name: "pod-fuse", FsName: source, DirectMountStrict: true, AllowOther: true,
	}})
	must(w.t, err)
	w.t.Cleanup(func() {
		w.unmountNode()
		server.Wait()
	})
}

// unmountNode unmounts the node mount. Until a child of the mounter has executed something, it has
// what the mounter had open there. With force, the connection ends as well where another suite has
// a mount namespace with a copy of this mount.
func (w *world) unmountNode() {
	w.t.Helper()
	unmount := func() error { return unix.Unmount(w.client.FS(), unix.MNT_FORCE) }
	err := unmount()
	for began := time.Now(); err != nil && time.Since(began) < hang; time.Sleep(5 * time.Millisecond) {
		err = unmount()
	}
	if err != nil {
		w.t.Errorf("the node mount is in use: %v", err)
		_ = unix.Unmount(w.client.FS(), unix.MNT_DETACH|unix.MNT_FORCE)
	}
}

// everyName is a directory in which every name is one, but who looks for one that begins with
// "never" gets no answer. A name stands for the same node each time: the kernel mounts nothing on a
// directory that has become another one.
type everyName struct{ gofs.Inode }

func (n *everyName) Lookup(ctx context.Context, name string, out *fuse.EntryOut) (*gofs.Inode, syscall.Errno) {
	if strings.HasPrefix(name, "never") {
		select {}
	}
	hash := fnv.New64()
	fmt.Fprintf(hash, "%d/%s", n.StableAttr().Ino, name)
	return n.NewInode(ctx, &everyName{}, gofs.StableAttr{Mode: fuse.S_IFDIR, Ino: hash.Sum64()}), 0
}

func (n *everyName) Getattr(_ context.Context, _ gofs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	out.Mode = fuse.S_IFDIR | 0o555
	return 0
}

// containerOptions are what a container has.
type containerOptions struct {
	Server, Client volume.ID
	Run            string      // the run directory
	Sub            string      // directory of the volume that /sub shows
	HostView       string      // directory of the host that is /agent with all that is mounted in it, as node agents have the kubelet's
	Alike          string      // path on which the volume is, too
	Below          string      // directory of the volume that another volume is mounted on
	Within         string      // and one that the volume itself is mounted on
	Slow           string      // directory of the host that is /slow
	Reads          bool        // it has no server volume: no program of its pod is begun in it
	Copies         int         // so many more of the server volume, as root of a pod can make
	More           []volume.ID // other server volumes, of which it has what tells them apart
	Many           int         // so many mounts more, of which mountinfo has 200 bytes each
	// Shared are mounts of the host's, by where the container has peers of them, as with
	// Bidirectional; Receiving the same, but what is mounted in the container does not go to the
	// host, as with HostToContainer.
	Shared, Receiving map[string]string
	NoGroup           bool // the kubelet gives pods no cgroup of their own
}

type pod struct {
	w     *world
	pid   int
	cmd   *exec.Cmd
	group string // the file cgroup.procs of the pod; "": it has no cgroup of its own
}

// container starts one with both volumes.
func (w *world) container(o containerOptions) *pod {
	w.t.Helper()
	o.Run = w.client.RunDir
	if o.Client == 0 {
		o.Client = w.data.ID()
	}
	if o.Server == 0 {
		o.Server = w.server.ID()
	}
	group := ""
	if !o.NoGroup {
		record, err := w.client.Clients().Get(o.Client)
		must(w.t, err)
		group = w.podGroup(record.PodUID)
	}
	args, _ := json.Marshal(o)
	cmd := exec.Command("/proc/self/exe", "container", string(args))
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS | unix.CLONE_NEWPID}
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	must(w.t, err)
	must(w.t, cmd.Start())
	c := &pod{w, cmd.Process.Pid, cmd, group}
	w.t.Cleanup(c.kill)
	if group != "" {
		must(w.t, os.WriteFile(group, fmt.Appendln(nil, c.pid), 0))
	}
	line := make([]byte, 6)
	if _, err := out.Read(line); err != nil || string(line) != "ready\n" {
		w.t.Fatalf("the container does not start: %q, %v", line, err)
	}
	return c
}

func (c *pod) kill() {
	_ = c.cmd.Process.Kill()
	_ = c.cmd.Wait()
}

// containerMain is the first process of a container.
func containerMain(args []string) error {
	var o containerOptions
	if err := json.Unmarshal([]byte(args[0]), &o); err != nil {
		return err
	}
	root := filepath.Join(o.Run, "root")
	_ = os.Mkdir(root, 0o755)
	peers := map[string]int{}
	for _, what := range []map[string]string{o.Shared, o.Receiving} {
		for path, from := range what { // before it is private, what is cloned is a peer
			fd, err := unix.OpenTree(unix.AT_FDCWD, from, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
			if err != nil {
				return fmt.Errorf("clone %s: %w", from, err)
			}
			peers[path] = fd
		}
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	if err := unix.Mount("tmpfs", root, "tmpfs", 0, "mode=0755"); err != nil {
		return err
	}
	for path, mode := range map[string]uint32{"proc": 0o555, "data": 0o755, "sub": 0o755, "run": 0o755, "dev": 0o755, "etc": 0o755,
		"tmp": 0o1777, "m": 0o777, "mine": 0o700, "theirs": 0o1777, "slow": 0o755, "run/pod-fuse": 0o755} {
		_ = os.MkdirAll(filepath.Join(root, path), 0o755)
		if err := unix.Chmod(filepath.Join(root, path), mode); err != nil {
			return err
		}
	}
	_ = os.Chown(filepath.Join(root, "mine"), 1000, 1000)
	_ = os.Symlink("/m", filepath.Join(root, "link"))
	for _, file := range []string{"test", "program", "file", "dev/null", "dev/fuse"} {
		if err := os.WriteFile(filepath.Join(root, file), nil, 0o755); err != nil {
			return err
		}
	}
	bind := func(from, to string) error {
		if err := unix.Mount(from, filepath.Join(root, to), "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("bind %s: %w", from, err)
		}
		return nil
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	layout := podfuse.Layout{RunDir: o.Run}
	standIn := filepath.Join(layout.FS(), o.Client.String())
	steps := []func() error{
		func() error { return bind(standIn, "data") },
		func() error { return bind(layout.Shared(), "run/pod-fuse") },
		func() error { return bind(layout.FIFO(o.Server), "run/pod-fuse/fuse") },
		func() error { return bind(layout.Socket(), "run/pod-fuse/socket") },
		func() error { return bind(self, "test") },
		func() error { return bind(self, "program") },
		func() error { return bind("/dev/null", "dev/null") },
		func() error { return bind("/dev/fuse", "dev/fuse") },
		func() error { return unix.Mount("proc", filepath.Join(root, "proc"), "proc", 0, "") },
		func() error {
			if o.Reads {
				return unix.Unmount(filepath.Join(root, "run/pod-fuse"), unix.MNT_DETACH)
			}
			return nil
		},
	}
	if o.Sub != "" {
		steps = append(steps, func() error { return bind(filepath.Join(standIn, o.Sub), "sub") }, func() error {
			return unix.Mount("", filepath.Join(root, "sub"), "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, "")
		})
	}
	if o.Alike != "" {
		steps = append(steps, func() error { return os.MkdirAll(filepath.Join(root, o.Alike), 0o755) }, func() error { return bind(standIn, o.Alike) })
	}
	if o.Below != "" {
		below := filepath.Join(root, "data", o.Below)
		steps = append(steps, func() error { return unix.Mount("tmpfs", below, "tmpfs", 0, "") },
			func() error { return os.WriteFile(filepath.Join(below, "file"), []byte("below"), 0o644) })
	}
	if o.Within != "" {
		steps = append(steps, func() error { return bind(standIn, filepath.Join("data", o.Within)) })
	}
	if o.Slow != "" {
		steps = append(steps, func() error { return bind(o.Slow, "slow") })
	}
	for i := range o.Copies {
		copied := filepath.Join("tmp", strconv.Itoa(i))
		steps = append(steps, func() error { return os.Mkdir(filepath.Join(root, copied), 0o755) }, func() error {
			return unix.Mount(filepath.Join(root, "run/pod-fuse"), filepath.Join(root, copied), "", unix.MS_BIND|unix.MS_REC, "")
		})
	}
	for _, id := range o.More {
		path := "tmp/" + id.String()
		steps = append(steps, func() error { return os.WriteFile(filepath.Join(root, path), nil, 0o644) },
			func() error { return bind(layout.FIFO(id), path) })
	}
	many := filepath.Join(root, "tmp", strings.Repeat("x", 150))
	for range o.Many {
		steps = append(steps, func() error { return os.MkdirAll(many, 0o755) },
			func() error { return unix.Mount("tmpfs", many, "tmpfs", 0, "") })
	}
	for path, fd := range peers {
		at := filepath.Join(root, path)
		steps = append(steps, func() error { return unix.MoveMount(fd, "", unix.AT_FDCWD, at, unix.MOVE_MOUNT_F_EMPTY_PATH) })
		if o.Receiving[path] != "" {
			steps = append(steps, func() error { return unix.Mount("", at, "", unix.MS_SLAVE, "") })
		}
	}
	if o.HostView != "" {
		steps = append(steps, func() error { return os.Mkdir(filepath.Join(root, "agent"), 0o755) },
			func() error {
				return unix.Mount(o.HostView, filepath.Join(root, "agent"), "", unix.MS_BIND|unix.MS_REC, "")
			})
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	if err := os.Chdir(root); err != nil {
		return err
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return err
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return err
	}
	fmt.Println("ready")
	for { // as the first process of a container does
		var status unix.WaitStatus
		if _, err := unix.Wait4(-1, &status, 0, nil); err != nil {
			time.Sleep(5 * time.Millisecond)
		}
	}
}

// exec starts a process of this binary in the container.
func (c *pod) exec(user int, args ...string) *exec.Cmd {
	prefix := []string{"-t", strconv.Itoa(c.pid), "-m", "-p", "-r", "-w", "--"}
	if user != 0 {
		prefix = append([]string{"-S", strconv.Itoa(user), "-G", strconv.Itoa(user)}, prefix...)
	}
	args = append(append(append([]string{"nsenter"}, prefix...), "/test"), args...)
	if c.group != "" {
		args = append([]string{"sh", "-c", `echo $$ > "$0" && exec "$@"`, c.group}, args...)
	}
	return exec.Command(args[0], args[1:]...)
}

// podGroup makes a cgroup as a pod has it, until the test ends, and returns its file cgroup.procs.
func (w *world) podGroup(uid string) string {
	t := w.t
	t.Helper()
	uid = w.own(uid)
	if w.groups[uid] != "" {
		return w.groups[uid]
	}
	hierarchy := "/sys/fs/cgroup"
	if _, err := os.Stat(hierarchy + "/cgroup.procs"); err != nil { // cgroup v1
		hierarchy += "/pids"
	}
	groups, err := os.MkdirTemp(hierarchy, "mounter-test-")
	if err != nil {
		t.Fatalf("make a cgroup, as a pod has one: %v", err)
	}
	group := filepath.Join(groups, "pod"+uid)
	must(t, os.Mkdir(group, 0o755))
	t.Cleanup(func() {
		eventually(t, "nobody is in the cgroup", func() bool { return unix.Rmdir(group) == nil })
		must(t, os.Remove(groups))
	})
	if w.groups == nil {
		w.groups = map[string]string{}
	}
	w.groups[uid] = filepath.Join(group, "cgroup.procs")
	return w.groups[uid]
}

// run runs a shell-less command of the test's own in the container.
func (c *pod) read(path string) (string, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/root%s", c.pid, path))
	return strings.TrimSpace(string(text)), err
}

// mounts lists those of a type in the container, and of "fuse" all programs'.
func (c *pod) mounts(fsType string) (found []string) {
	table, _ := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", c.pid))
	for line := range strings.Lines(string(table)) {
		_, fs, _ := strings.Cut(line, " - ")
		is, _, _ := strings.Cut(fs, " ")
		if is == fsType || fsType == "fuse" && strings.HasPrefix(is, "fuse.") && is != "fuse.pod-fuse" {
			found = append(found, strings.TrimSpace(line))
		}
	}
	return found
}

// launch starts a launcher and its program.
func (c *pod) launch(user int, o launchOptions) *exec.Cmd {
	c.w.t.Helper()
	if o.Server == 0 {
		o.Server = c.w.server.ID()
	}
	args, _ := json.Marshal(o)
	cmd := c.exec(user, "launcher", string(args))
	output, err := os.CreateTemp(c.w.client.RunDir, "launcher-") // a pipe would be waited for
	must(c.w.t, err)
	cmd.Stderr, cmd.Stdout = output, output
	must(c.w.t, cmd.Start())
	done := make(chan struct{})
	go func() { _ = cmd.Wait(); close(done) }()
	c.w.t.Cleanup(func() {
		c.kill() // and all that is in it
		<-done
		if c.w.t.Failed() {
			text, _ := os.ReadFile(output.Name())
			c.w.t.Logf("launcher: %s", text)
		}
		output.Close()
	})
	return cmd
}

// serve starts a program, and waits until it serves.
func (c *pod) serve(o launchOptions) (generation uint64) {
	c.w.t.Helper()
	began := uint64(time.Now().UnixMicro())
	c.launch(o.User, o)
	for generation < began { // a new mounter tells of former ones again
		generation = c.w.event(wire.ServedNow).Generation
	}
	return generation
}

// died waits for the death of a generation.
func (w *world) died(generation uint64) got {
	w.t.Helper()
	for {
		if e := w.event(wire.Died); e.Generation == generation {
			return e
		}
	}
}

// refused has a program ask, and returns the answer.
func (c *pod) refused(user int, o launchOptions) string {
	c.w.t.Helper()
	if o.Server == 0 {
		o.Server = c.w.server.ID()
	}
	args, _ := json.Marshal(o)
	output, err := c.exec(user, "asker", string(args)).CombinedOutput()
	if err == nil {
		return "served"
	}
	return strings.TrimSpace(string(output))
}

type launchOptions struct {
	Server     volume.ID
	User       int
	Mountpoint string
	Text       string // that the file "text" has
	Mode       string // "": the launcher waits; "exit": it does not; "daemon": the program forks; "exec": it is the program; "late": it closes its descriptor late
	Options    wire.Options
	Silent     bool   // the program does not answer before SIGUSR1
	Hide       string // where it has its descriptor once it serves; see hides
	Itself     string // a file that the program asks itself for at SIGUSR1, and does not answer: Mountpoint/never
	Unmount    bool   // of an asker: the mount point
	Encloses   bool   // an asker sends a descriptor
	Hostile    *hostile
}

// errLater says that the same may be answered otherwise later.
var errLater = errors.New("refused, for now")

func askerMain(args []string) error {
	_, _, err := ask(args[0])
	return err
}

func ask(text string) (o launchOptions, device *os.File, err error) {
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return o, nil, err
	}
	conn, err := net.Dial("unixpacket", "/run/pod-fuse/socket")
	if err != nil {
		return o, nil, err
	}
	socket, err := packet.Over(conn.(*net.UnixConn))
	if err != nil {
		return o, nil, err
	}
	defer socket.Close()
	r := wire.Request{Format: 1, Kind: wire.Serve, Server: o.Server, Mountpoint: o.Mountpoint, Options: o.Options}
	if o.Unmount {
		r.Kind = wire.Unmount
	}
	var files []*os.File
	if o.Encloses {
		files = append(files, os.Stderr)
	}
	if err := socket.Send(hang, r, files...); err != nil {
		return o, nil, err
	}
	answerText, files, err := socket.Receive(time.Now().Add(hang))
	if err != nil {
		return o, nil, err
	}
	var answer wire.Answer
	if err := packet.Decode(answerText, &answer); err != nil {
		return o, nil, err
	}
	if o.Unmount && answer.Error == "" {
		return o, nil, nil
	}
	if answer.Again {
		return o, nil, fmt.Errorf("%w: %s", errLater, answer.Error)
	}
	if answer.Error != "" || len(files) != 1 {
		return o, nil, fmt.Errorf("refused: %s", answer.Error)
	}
	return o, files[0], nil
}

func launcherMain(args []string) error {
	o, device, err := ask(args[0])
	for began := time.Now(); errors.Is(err, errLater) && time.Since(began) < hang; time.Sleep(10 * time.Millisecond) {
		o, device, err = ask(args[0])
	}
	if err != nil {
		return err
	}
	if o.Mode == "exec" {
		if err := unix.Dup2(int(device.Fd()), 3); err != nil {
			return err
		}
		return unix.Exec("/program", []string{"/program", "program", args[0]}, nil)
	}
	process, err := os.StartProcess("/test", []string{"/test", "program", args[0]}, &os.ProcAttr{
		Files: []*os.File{nil, os.Stdout, os.Stderr, device},
	})
	if err != nil || o.Mode == "exit" {
		return err
	}
	if o.Mode == "late" {
		time.Sleep(2 * startTime)
	}
	device.Close()
	state, err := process.Wait()
	if err == nil {
		err = fmt.Errorf("the program has ended: %v", state)
	}
	return err
}

// programMain serves what descriptor 3 is.
func programMain(args []string) error {
	var o launchOptions
	if err := json.Unmarshal([]byte(args[0]), &o); err != nil {
		return err
	}
	if o.Silent {
		told := make(chan os.Signal, 1)
		signal.Notify(told, unix.SIGUSR1)
		<-told
	}
	if o.Hostile != nil {
		return serveWrong(*o.Hostile)
	}
	if o.Hide != "" {
		return serveAndHide(o.Hide)
	}
	if o.Mode == "daemon" {
		o.Mode = ""
		text, _ := json.Marshal(o)
		_, err := os.StartProcess("/test", []string{"/test", "program", string(text)}, &os.ProcAttr{
			Files: []*os.File{nil, os.Stdout, os.Stderr, os.NewFile(3, "device")},
		})
		return err
	}
	root := &gofs.Inode{}
	raw := gofs.NewNodeFS(root, &gofs.Options{OnAdd: func(ctx context.Context) {
		add := func(parent *gofs.Inode, name string, node gofs.InodeEmbedder, mode uint32) *gofs.Inode {
			child := parent.NewPersistentInode(ctx, node, gofs.StableAttr{Mode: mode})
			parent.AddChild(name, child, false)
			return child
		}
		add(root, "text", slowclose.Text(o.Text), fuse.S_IFREG)
		dir := add(root, "there", &gofs.Inode{}, fuse.S_IFDIR)
		add(dir, "text", slowclose.Text(o.Text), fuse.S_IFREG)
		add(root, "link", &gofs.MemSymlink{Data: []byte("there")}, fuse.S_IFLNK)
		if o.Itself != "" { // or who is killed while he waits for it might ask the next program, and wait for that
			add(root, "never", &never{}, fuse.S_IFREG)
		}
	}})
	if o.Itself != "" { // before it answers
		told := make(chan os.Signal, 1)
		signal.Notify(told, unix.SIGUSR1)
		go func() { <-told; _, _ = os.Stat(o.Itself) }()
	}
	server, err := fuse.NewServer(raw, "/dev/fd/3", &fuse.MountOptions{AllowOther: true})
	if err != nil {
		return err
	}
	server.Serve()
	return nil
}

// never is a file whose attributes nobody gets.
type never struct{ gofs.Inode }

func (*never) Getattr(context.Context, gofs.FileHandle, *fuse.AttrOut) syscall.Errno { select {} }

// programs lists the processes of a role in the container, by their numbers on the host.
func (c *pod) programs(role string) (pids []int) {
	all, _ := proc.PIDs()
	namespace, _ := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", c.pid))
	for _, pid := range all {
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		words := strings.Split(string(text), "\x00")
		if len(words) < 2 || words[1] != role {
			continue
		}
		if link, _ := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", pid)); link == namespace {
			pids = append(pids, pid)
		}
	}
	return pids
}

// killProgram kills the program, and returns when it did.
func (c *pod) killProgram() time.Time {
	c.w.t.Helper()
	pids := c.programs("program")
	if len(pids) == 0 {
		c.w.t.Fatal("there is no program to kill")
	}
	began := time.Now()
	for _, pid := range pids {
		must(c.w.t, unix.Kill(pid, unix.SIGKILL))
	}
	return began
}

// stop stops processes. A signal takes effect later than kill(2) returns: until each thread has
// stopped, they may answer.
func stop(t *testing.T, pids ...int) {
	t.Helper()
	for _, pid := range pids {
		must(t, unix.Kill(pid, unix.SIGSTOP))
	}
	for _, pid := range pids {
		eventually(t, fmt.Sprintf("process %d has stopped", pid), func() bool {
			threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
			must(t, err)
			return len(threads) > 0 && !slices.ContainsFunc(threads, func(path string) bool {
				text, err := os.ReadFile(path)
				return err == nil && !strings.Contains(string(text), ") T ")
			})
		})
	}
}

// eventually waits until something is so.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for began := time.Now(); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Since(began) > hang {
			t.Fatalf("never: %s", what)
		}
	}
}

// inVault lists the connections' directories in the mounter's vault.
func (w *world) inVault() (dirs []string) {
	w.t.Helper()
	pid := w.now().PID
	numbers, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	must(w.t, err)
	for _, number := range numbers {
		link, _ := os.Readlink(number)
		if !strings.HasPrefix(link, "mnt:[") {
			continue
		}
		vault, err := os.Open(number)
		if err != nil {
			continue // that of an errand, which was closed meanwhile
		}
		defer vault.Close()
		must(w.t, mount.Inside(int(vault.Fd()), func() error {
			entries, err := os.ReadDir("/")
			for _, entry := range entries {
				dirs = append(dirs, entry.Name())
			}
			return err
		}))
		return dirs
	}
	w.t.Fatal("the mounter has no vault")
	return nil
}

// checkLeft fails if something is left: it runs last.
func (w *world) checkLeft() {
	w.t.Helper()
	for began := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		table, _ := os.ReadFile("/proc/self/mountinfo")
		children, _ := os.ReadFile(fmt.Sprintf("/proc/self/task/%d/children", os.Getpid()))
		left := ""
		if strings.Contains(string(table), w.client.RunDir) {
			left = "mounts:\n" + string(table)
		}
		pids, _ := proc.PIDs()
		for _, pid := range pids {
			text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
			if bytes.Contains(text, []byte(w.client.RunDir)) {
				left += fmt.Sprintf("process %d: %s\n", pid, strings.ReplaceAll(string(text), "\x00", " "))
			}
		}
		if left == "" {
			return
		}
		if time.Since(began) > hang {
			w.t.Errorf("left: %s; children %s", left, children)
			return
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
