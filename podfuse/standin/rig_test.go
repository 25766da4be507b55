package standin

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	gofs "github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/internal/mount"
	"example.com/pod-info-fuse/internal/packet"
	"example.com/pod-info-fuse/podfuse"
	"example.com/pod-info-fuse/podfuse/wire"
	"example.com/pod-info-fuse/survive"
	"example.com/pod-info-fuse/survive/survivetest"
	"example.com/pod-info-fuse/survive/volume"
)

// role is what a process is that a test starts from its own binary: a container, a program that
// serves, or something that a process in a container does.
const role = "STANDIN_TEST_ROLE"

func TestMain(m *testing.M) {
	if what := os.Getenv(role); what != "" {
		if err := play(what, os.Args[1:]); err != nil {
			var errno unix.Errno
			if errors.As(err, &errno) {
				fmt.Println(unix.ErrnoName(errno))
			} else {
				fmt.Println(err)
			}
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func play(what string, args []string) error {
	switch what {
	case "container": // HIDDEN SOURCE TARGET ...
		if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
			return err
		}
		for i := 1; i < len(args); i += 2 {
			if err := again(func() error { return unix.Mount(args[i], args[i+1], "", unix.MS_BIND|unix.MS_REC, "") }); err != nil {
				return fmt.Errorf("%s on %s: %w", args[i], args[i+1], err)
			}
		}
		if err := unix.Unmount(args[0], unix.MNT_DETACH); err != nil {
			return err
		}
		all, err := mount.Own().Mounts("fuse.test", "data")
		for _, info := range all {
			if err == nil && strings.Contains(info.Mountpoint, "/vault-") {
				err = unix.Unmount(info.Mountpoint, unix.MNT_DETACH)
			}
		}
		if err != nil {
			return err
		}
		fmt.Println("ready")
		_, _ = io.Copy(io.Discard, os.Stdin)
		return nil
	case "program": // DIR
		root, err := gofs.NewLoopbackRoot(args[0])
		if err != nil {
			return err
		}
		server, err := gofs.Mount("/dev/fd/3", root, &gofs.Options{MountOptions: fuse.MountOptions{}})
		if err != nil {
			return err
		}
		server.Wait()
		return nil
	case "cat":
		text, err := os.ReadFile(args[0])
		fmt.Print(string(text))
		return err
	case "stat":
		return again(func() error { return unix.Stat(args[0], new(unix.Stat_t)) })
	case "statfs":
		return again(func() error { return unix.Statfs(args[0], new(unix.Statfs_t)) })
	case "chdir":
		return again(func() error { return unix.Chdir(args[0]) })
	case "access":
		return again(func() error { return unix.Access(args[0], unix.R_OK) })
	case "mkdir":
		return again(func() error { return unix.Mkdir(args[0], 0o755) })
	case "chmod":
		return again(func() error { return unix.Chmod(args[0], 0o700) })
	case "list":
		entries, err := os.ReadDir(args[0])
		for _, e := range entries {
			fmt.Print(e.Name(), " ")
		}
		return err
	case "keep": // opens a file, and uses it for each line
		file, err := os.Open(args[0])
		if err != nil {
			return err
		}
		fmt.Println("open")
		for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
			fmt.Println(reason(file.Sync())) // nothing of that is in a cache
		}
		return nil
	case "silent": // CGROUP SOCKET N: connects as a process of a pod, and says nothing
		if err := os.WriteFile(args[0], []byte("0"), 0); err != nil {
			return err
		}
		for n, _ := strconv.Atoi(args[2]); n > 0; n-- {
			conn, err := net.Dial("unixpacket", args[1])
			if err != nil {
				return err
			}
			defer conn.Close()
		}
		_, _ = io.Copy(io.Discard, os.Stdin)
		return nil
	case "ask": // SOCKET REQUEST
		conn, err := net.Dial("unixpacket", args[0])
		if err != nil {
			return err
		}
		if _, err := conn.Write([]byte(args[1])); err != nil {
			return err
		}
		_ = conn.SetReadDeadline(time.Now().Add(soon))
		answer := make([]byte, packet.Max)
		n, err := conn.Read(answer)
		fmt.Print(string(answer[:n]))
		return err
	}
	return fmt.Errorf("role %s is not known", what)
}

// again does something that a signal ends as often as one does: who is frozen, and waits, gets
// EINTR when he is thawed.
func again(do func() error) error {
	for {
		if err := do(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

func reason(err error) string {
	var errno unix.Errno
	if errors.As(err, &errno) {
		return unix.ErrnoName(errno)
	}
	return "ok"
}

// soon is how long what should take milliseconds may take on a busy machine: it tells a hang from
// a wait. while is how long a test looks at what should not happen.
const (
	soon  = time.Minute
	while = 300 * time.Millisecond
)

// rig is a node with one volume. The test plays the mounter, and the kubelet.
type rig struct {
	t       *testing.T
	dir     string
	layout  podfuse.Layout
	record  volume.Record
	server  volume.Record
	fs      *FileSystem
	given   []*os.File
	mounted *survivetest.Mounted
	stop    func()
	mounter *packet.Socket
	logged  chan string
	changes []func(*FileSystem)

	mu         sync.Mutex // guards what follows
	orders     []wire.Order
	sockets    []*os.File // that came with orders
	replay     func()     // what is told to a process that begins
	attach     func(wire.Order) error
	containers []*container
	programs   []*program
}

// newRig makes one, and changes what serves it.
func newRig(t *testing.T, wait time.Duration, changes ...func(*FileSystem)) *rig {
	t.Helper()
	return newRigOn(t, "kubelet/pods", wait, changes...)
}

// disk is where the kubelet's directories are in a rig in which its path is a link: mountinfo shows
// nothing of that.
const disk = "disk"

// newRigOn has the kubelet's directories in one of the rig's, and a link where the kubelet expects
// them if that is another one.
func newRigOn(t *testing.T, kubelets string, wait time.Duration, changes ...func(*FileSystem)) *rig {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("to mount needs root")
	}
	dir, err := os.MkdirTemp("", "rig") // the path of a socket is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	slow := func(f *FileSystem) { f.requestTime = time.Hour } // however slow the machine is
	r := &rig{t: t, changes: append([]func(*FileSystem){slow}, changes...), dir: dir, layout: podfuse.Layout{RunDir: dir}, logged: make(chan string, 1000)}
	r.must(os.MkdirAll(filepath.Join(dir, "kubelet"), 0o755))
	r.must(os.MkdirAll(filepath.Join(dir, kubelets), 0o755))
	if kubelets == disk {
		r.must(os.Symlink(filepath.Join(dir, disk), filepath.Join(dir, "kubelet/pods")))
	}
	pods := filepath.Join(dir, "kubelet/pods", podUID, "volumes/example.com~pod-fuse")
	r.record = volume.Record{Dir: pods + "/data", PodUID: podUID, Mounted: time.Now().Round(0), Attributes: r.json(podfuse.Attributes{Format: 1, Wait: wait})}
	r.server = volume.Record{Dir: pods + "/data-server", PodUID: podUID, Mounted: time.Now().Round(0), Attributes: r.json(podfuse.Attributes{Format: 1, Serves: "data"})}
	for _, d := range []string{r.layout.FS(), r.layout.Servers(), r.layout.Clients().Dir, r.layout.ServerVolumes().Dir, r.record.Dir, r.server.Dir} {
		r.must(os.MkdirAll(d, 0o755))
	}
	r.must(r.layout.Clients().Put(r.record))
	r.must(r.layout.ServerVolumes().Put(r.server))
	r.must(unix.Mount("pod-fuse", r.layout.Servers(), "tmpfs", 0, "mode=0755"))
	r.unmountLater(r.layout.Servers())
	r.must(os.Mkdir(r.serverDir(r.server.ID()), 0o755))
	listener, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: filepath.Join(r.serverDir(r.server.ID()), wire.Socket), Net: "unixpacket"})
	r.must(err)
	pods0, err := listener.File()
	r.must(err)
	listener.SetUnlinkOnClose(false)
	listener.Close()
	ours, theirs, err := packet.Pair()
	r.must(err)
	r.mounter, err = packet.New(ours)
	r.must(err)
	ours.Close()
	r.given = []*os.File{pods0, theirs}
	t.Cleanup(func() {
		r.mounter.Close()
		for _, f := range r.given {
			f.Close()
		}
	})
	r.attach = r.put
	go r.play()

	r.mounted, err = survivetest.Mount(r.files(), r.layout.FS())
	r.must(err)
	t.Cleanup(func() { _ = unix.Unmount(r.layout.FS(), unix.MNT_FORCE|unix.MNT_DETACH) })
	r.serve()
	t.Cleanup(func() { r.stop() })
	r.must(unix.Mount(filepath.Join(r.layout.FS(), r.record.ID().String()), r.record.Dir, "", unix.MS_BIND, ""))
	r.unmountLater(r.record.Dir)
	t.Cleanup(func() {
		if t.Failed() {
			close(r.logged)
			for line := range r.logged {
				t.Log(line)
			}
		}
	})
	return r
}

func (r *rig) files() *FileSystem {
	files := New(survive.Site{Volumes: r.layout.Clients(), CompanionFiles: r.given, Report: func(problem string) {
		select {
		case r.logged <- problem:
		default:
		}
	}}, r.layout)
	files.self = "/dev/null" // all processes of a test are in one cgroup
	for _, change := range r.changes {
		change(files)
	}
	return files
}

// serve has the next process serve.
func (r *rig) serve() {
	r.t.Helper()
	r.fs = r.files()
	stop, err := r.mounted.Serve(r.fs, func(problem string) { r.t.Error(problem) })
	r.must(err)
	r.stop = sync.OnceFunc(stop)
}

func (r *rig) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) json(message any) []byte {
	data, err := json.Marshal(message)
	r.must(err)
	return data
}

func (r *rig) unmountLater(dir string) {
	r.t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil && err != unix.EINVAL { // as a test has done it
			r.t.Errorf("unmount %s: %v", dir, err)
		}
	})
}

// play plays the mounter: it attaches what it is told to, and notes other orders.
func (r *rig) play() {
	for {
		text, files, err := r.mounter.Receive(time.Time{})
		if err != nil {
			return
		}
		var order wire.Order
		if err := packet.Decode(text, &order); err != nil {
			r.t.Error(err)
			continue
		}
		var file *os.File
		if len(files) > 0 {
			file = files[0]
		}
		r.mu.Lock()
		r.orders = append(r.orders, order)
		r.sockets = append(r.sockets, file)
		replay, attach := r.replay, r.attach
		r.mu.Unlock()
		switch order.Kind {
		case wire.Hello:
			if replay != nil {
				replay()
			}
			r.tell(wire.Event{Kind: wire.Done, Ticket: order.Ticket})
		case wire.Attach:
			go func() {
				event := wire.Event{Kind: wire.Attached, Ticket: order.Ticket, Volume: order.Volume, Generation: order.Generation}
				if err := attach(order); err != nil {
					event.Error = err.Error()
				}
				r.tell(event)
			}()
		}
	}
}

// tell sends an event.
func (r *rig) tell(event wire.Event, files ...*os.File) {
	_ = r.mounter.Send(packet.NoLimit, event, files...)
}

// ordered waits for an order of a kind.
func (r *rig) ordered(kind wire.Kind) (order wire.Order, socket *os.File) {
	r.t.Helper()
	for deadline := time.Now().Add(soon); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		r.mu.Lock()
		for i, o := range r.orders {
			if o.Kind == kind {
				r.orders[i].Kind = ""
				order, socket = o, r.sockets[i]
				r.mu.Unlock()
				return order, socket
			}
		}
		r.mu.Unlock()
	}
	r.t.Fatalf("there is no order %s", kind)
	return order, nil
}

// container is a mount namespace that has the volume, and not the kubelet's directory.
type container struct {
	*rig
	pid   int
	paths []string
}

// container starts one. Each sub-path of the volume is mounted on a directory of its own.
func (r *rig) container(subPaths ...string) *container {
	r.t.Helper()
	var binds []string
	c := &container{rig: r}
	for _, sub := range subPaths {
		target, err := os.MkdirTemp(r.dir, "container-")
		r.must(err)
		c.paths = append(c.paths, target)
		binds = append(binds, filepath.Join(r.record.Dir, sub), target)
	}
	c.start(binds)
	return c
}

// serverDir is in the place of a server volume's FIFO, whose name is all that the pair looks at. It
// has the socket, too.
func (r *rig) serverDir(id volume.ID) string { return r.layout.FIFO(id) }

// server starts a container of the program, which has the server volume.
func (r *rig) serverContainer(binds ...string) *container {
	c := &container{rig: r}
	target, err := os.MkdirTemp(r.dir, "server-")
	r.must(err)
	c.paths = []string{target}
	c.start(append(binds, r.serverDir(r.server.ID()), target))
	return c
}

func (c *container) start(binds []string) {
	c.t.Helper()
	cmd := exec.Command("/proc/self/exe", append([]string{c.record.Dir}, binds...)...)
	cmd.Env = []string{role + "=container"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS}
	stdin, err := cmd.StdinPipe()
	c.must(err)
	stdout, err := cmd.StdoutPipe()
	c.must(err)
	c.must(cmd.Start())
	c.t.Cleanup(func() {
		stdin.Close()
		_ = cmd.Wait()
	})
	if line, _ := bufio.NewReader(stdout).ReadString('\n'); line != "ready\n" {
		c.t.Fatalf("the container is not ready: %s", line)
	}
	c.pid = cmd.Process.Pid
	c.mu.Lock()
	defer c.mu.Unlock()
	c.containers = append(c.containers, c)
}

// process is one in a container.
type process struct {
	*container
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stdout *bufio.Reader
	ended  chan string // what it has printed
}

// do starts a process in the container that does something.
func (c *container) do(what string, args ...string) *process {
	c.t.Helper()
	p := &process{container: c, ended: make(chan string, 1)}
	p.cmd = exec.Command("/proc/self/exe", args...)
	p.cmd.Env = []string{role + "=" + what}
	var err error
	p.stdin, err = p.cmd.StdinPipe()
	c.must(err)
	stdout, err := p.cmd.StdoutPipe()
	c.must(err)
	p.stdout = bufio.NewReader(stdout)
	namespace, err := mount.Of(c.pid)
	c.must(err)
	c.must(namespace.Do(p.cmd.Start)) // the child is in the namespace of the thread
	if what != "keep" {
		go func() {
			output, _ := io.ReadAll(p.stdout)
			_ = p.cmd.Wait()
			p.ended <- strings.TrimSpace(string(output))
		}()
	}
	c.t.Cleanup(func() { _ = p.cmd.Process.Kill(); p.stdin.Close() })
	return p
}

// prints expects a process to end, and what it has printed.
func (p *process) prints(want string) {
	p.t.Helper()
	select {
	case got := <-p.ended:
		if got != want {
			p.t.Errorf("%s %v: %q, want %q", p.cmd.Env, p.cmd.Args[1:], got, want)
		}
	case <-time.After(soon):
		p.t.Fatalf("%s %v has not ended", p.cmd.Env, p.cmd.Args[1:])
	}
}

// waits expects a process to wait.
func (p *process) waits() {
	p.t.Helper()
	select {
	case got := <-p.ended:
		p.t.Fatalf("%s %v has not waited: %q", p.cmd.Env, p.cmd.Args[1:], got)
	case <-time.After(while):
	}
}

// isHeld waits until a request of the process is held.
func (p *process) isHeld() {
	p.t.Helper()
	p.eventually("is held", func() bool {
		for _, thread := range p.fs.heldThreads() {
			if _, err := os.Stat(fmt.Sprintf("/proc/%d/task/%d", p.cmd.Process.Pid, thread)); err == nil {
				return true
			}
		}
		return false
	})
}

func (f *FileSystem) heldThreads() (all []uint32) {
	s := f.service.Load()
	if s == nil { // it has just begun
		return nil
	}
	s.outages.do(func() {
		for c, view := range s.outages.callers {
			all = append(all, view.callers[c])
		}
	})
	return all
}

// eventually waits until something is so.
func (r *rig) eventually(what string, is func() bool) {
	r.t.Helper()
	eventually(r.t, what, is)
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(soon); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
	}
}

// reads has a process that keeps a file open use it, and expects a result.
func (p *process) reads(want string) {
	p.t.Helper()
	if want != "open" {
		fmt.Fprintln(p.stdin)
	}
	line := make(chan string, 1)
	go func() {
		text, _ := p.stdout.ReadString('\n')
		line <- strings.TrimSpace(text)
	}()
	select {
	case got := <-line:
		if got != want {
			p.t.Errorf("a file that was open: %q, want %q", got, want)
		}
	case <-time.After(soon):
		p.t.Fatalf("a file that was open: no answer")
	}
}

// program is a go-fuse program that serves a directory. Its mount is in the vault.
type program struct {
	*rig
	generation uint64
	device     *os.File // the program has it, too
	cmd        *exec.Cmd
	vault      string
}

// program starts one, of which the pair is not told yet.
func (r *rig) program(content map[string]string) *program {
	r.t.Helper()
	r.mu.Lock()
	p := &program{rig: r, generation: uint64(len(r.programs) + 1)}
	r.programs = append(r.programs, p)
	r.mu.Unlock()
	source, err := os.MkdirTemp(r.dir, "source-")
	r.must(err)
	r.must(os.Chmod(source, 0o755))
	for name, text := range content {
		r.must(os.MkdirAll(filepath.Dir(filepath.Join(source, name)), 0o755))
		r.must(os.WriteFile(filepath.Join(source, name), []byte(text), 0o644))
	}
	p.vault, err = os.MkdirTemp(r.dir, "vault-")
	r.must(err)
	device, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	r.must(err)
	p.device = os.NewFile(uintptr(device), "fuse") // blocking, as the program wants it
	r.must(unix.Mount("data", p.vault, "fuse.test", unix.MS_NOSUID|unix.MS_NODEV, fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other", device)))
	r.unmountLater(p.vault)
	p.cmd = exec.Command("/proc/self/exe", source)
	p.cmd.Env = []string{role + "=program"}
	p.cmd.ExtraFiles = []*os.File{p.device}
	p.cmd.Stderr = os.Stderr
	r.must(p.cmd.Start())
	r.t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		_ = p.cmd.Wait()
		p.device.Close()
	})
	return p
}

// serves waits until the program answers, and tells so.
func (p *program) serves() {
	p.t.Helper()
	p.must(again(func() error { return unix.Statfs(p.vault, new(unix.Statfs_t)) }))
	p.tell(wire.Event{Kind: wire.ServedNow, Volume: p.record.ID(), Generation: p.generation})
}

// stops stops the program. A signal takes effect later than kill(2) returns: until each thread has
// stopped, it may answer.
func (p *program) stops() {
	p.t.Helper()
	p.must(p.cmd.Process.Signal(unix.SIGSTOP))
	p.eventually("the program has stopped", func() bool {
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", p.cmd.Process.Pid))
		p.must(err)
		return len(threads) > 0 && !slices.ContainsFunc(threads, func(path string) bool {
			text, err := os.ReadFile(path)
			return err == nil && !strings.Contains(string(text), ") T ")
		})
	})
}

// dies kills the program, and hands its connection over. It returns when the pair knows.
func (p *program) dies() {
	p.t.Helper()
	p.must(p.cmd.Process.Kill())
	_ = p.cmd.Wait()
	p.tellDeath()
	p.eventually("its death is known", func() bool {
		state, known := p.fs.service.Load().outages.state(p.record.ID())
		return known && state != wire.Served
	})
}

func (p *program) tellDeath() {
	p.tell(wire.Event{Kind: wire.Died, Volume: p.record.ID(), Generation: p.generation, Since: time.Now()}, p.device)
}

// put attaches the program's mount for an order.
func (r *rig) put(order wire.Order) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if order.PID == 0 { // wherever a dead program's mount is
		for _, c := range r.containers {
			where, err := mount.Of(c.pid)
			if err != nil {
				return err
			}
			for _, path := range c.paths {
				if above, err := where.Mounts("fuse.test", "data"); err != nil || !slices.ContainsFunc(above, func(i *mountinfo.Info) bool { return i.Mountpoint == path }) {
					continue
				}
				if err := r.putOn(where, path, order.Generation); err != nil {
					return err
				}
			}
		}
		return nil
	}
	where, err := mount.Of(order.PID)
	if err != nil {
		return err
	}
	for _, c := range r.containers {
		if here, err := mount.Of(c.pid); err != nil || here.Name != where.Name {
			continue
		}
		for _, path := range c.paths {
			if err := r.putOn(where, path, order.Generation); err != nil {
				return err
			}
		}
		return nil
	}
	return fmt.Errorf("process %d is in no container", order.PID)
}

func (r *rig) putOn(where mount.Namespace, path string, generation uint64) error {
	infos, err := where.Mounts("fuse.survivetest", "survivetest")
	if err != nil {
		return err
	}
	sub := "none"
	for _, info := range infos {
		if info.Mountpoint == path {
			sub = strings.TrimPrefix(info.Root, "/"+r.record.ID().String())
		}
	}
	if sub == "none" {
		return nil // no stand-in
	}
	vault, err := mount.Open(filepath.Join(r.programs[generation-1].vault, sub))
	if err != nil {
		return err
	}
	defer vault.Close()
	tree, err := vault.Clone()
	if err != nil {
		return err
	}
	defer tree.Close()
	return where.Do(func() error {
		before, err := where.Mounts("fuse.test", "data")
		if err != nil {
			return err
		}
		for _, info := range before {
			if info.Mountpoint == path {
				if unix.Mkdev(uint32(info.Major), uint32(info.Minor)) == vault.Device() {
					return nil // it is there, and nobody is to find the stand-in meanwhile
				}
				if err := unix.Unmount(path, unix.MNT_DETACH); err != nil {
					return err
				}
			}
		}
		on, err := mount.Open(path)
		if err != nil {
			return err
		}
		defer on.Close()
		return tree.Attach(on)
	})
}
