package survivetest

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/internal/confine"
	"example.com/pod-info-fuse/survive"
	"example.com/pod-info-fuse/survive/internal/connection"
	"example.com/pod-info-fuse/survive/internal/counters"
	"example.com/pod-info-fuse/survive/volume"
)

// A process that serves is the test's binary once more, which runs the same test up to its Run.
// Once all have started, only they have the descriptor of /dev/fuse: the connection ends with them,
// whatever the test waits for. They end after lifeTime.

const (
	variable = "SURVIVETEST" // of the environment: the role of such a process, as JSON
	lifeTime = "10m"
)

// The descriptors of such a process, after its standard ones. Its input are orders.
const (
	deviceFD = 3 + iota
	answersFD
	inputFD // /dev/null for none
	companionFD
)

// role is what such a process is told.
type role struct {
	Dir            string // as a run directory
	Agreed         []byte // connection.Params
	UID            uint32
	Confined       bool
	Before         bool // it is the version before
	Input          bool
	CompanionFiles int
}

// Orders, each of which is acknowledged when it was carried out.
const serve, stop = 's', 'e'

// message is what such a process says: a problem, of which it may end; or none, when it is ready or
// has carried out an order.
type message struct {
	Problem string
	Ends    bool
}

// process is a process that serves, as the test has it.
type process struct {
	*os.Process
	orders *os.File
	done   chan bool     // gets an element for each acknowledgement, and is closed at the process's end
	ended  chan struct{} // is closed when it was waited for
}

// start starts a process, and returns when it is ready, or has ended.
func (r *run) start(what role) *process {
	what.Dir, what.Agreed, what.UID = r.dir, r.agreed.Encode(), r.uid
	what.Input, what.CompanionFiles = r.Site.Input != nil, len(r.Site.CompanionFiles)
	text, errText := json.Marshal(what)
	output, errOutput := os.CreateTemp(filepath.Join(r.dir, "tmp"), "output-")
	null, errNull := os.Open(os.DevNull)
	orders, ours, errOrders := os.Pipe()
	answers, theirs, errAnswers := os.Pipe()
	// A duplicate, because to read the number of an os.File may change the mode of the open file.
	fd, errDevice := unix.FcntlInt(uintptr(r.device), unix.F_DUPFD_CLOEXEC, 3)
	device := os.NewFile(uintptr(fd), "/dev/fuse")
	given := []*os.File{orders, output, output, device, theirs, cmp.Or(r.Site.Input, null)}
	p := &process{orders: ours, done: make(chan bool, 1), ended: make(chan struct{})}
	state, errState := r.state(r.version(what).State)
	err := errors.Join(errText, errOutput, errNull, errOrders, errAnswers, errDevice, errState)
	if err == nil {
		name := "^" + strings.ReplaceAll(regexp.QuoteMeta(r.t.Name()), "/", "$/^") + "$"
		p.Process, err = os.StartProcess("/proc/self/exe", []string{os.Args[0], "-test.run=" + name, "-test.timeout=" + lifeTime}, &os.ProcAttr{
			// What the test makes in its temporary directory, nobody else removes.
			Env:   append(os.Environ(), variable+"="+string(text), "TMPDIR="+filepath.Join(r.dir, "tmp")),
			Files: append(append(given, r.Site.CompanionFiles...), state),
		})
	}
	for _, f := range []*os.File{orders, theirs, device, null} {
		f.Close() // so that the end of each is seen
	}
	r.must(err)
	go func() {
		defer close(p.ended)
		defer close(p.done)
		for from := json.NewDecoder(answers); ; {
			var m message
			if err := from.Decode(&m); err != nil {
				break
			}
			if m.Problem == "" {
				p.done <- true
			} else if r.failed.add("%s", m.Problem); m.Ends {
				r.failed.close()
			}
		}
		state, _ := p.Wait()
		said, _ := os.ReadFile(output.Name())
		r.failed.add("a process that serves has ended (%v), as would each that takes over, or has not come to Run: %.2000s", state, said)
		for _, f := range []*os.File{ours, answers, output} {
			f.Close()
		}
		r.abort()
	}()
	r.mu.Lock()
	if r.processes = append(r.processes, p); r.aborted {
		_ = p.Kill()
	}
	r.mu.Unlock()
	<-p.done
	r.seen()
	return p
}

// state is the memory for all processes of versions whose State has a size.
func (r *run) state(size int) (*os.File, error) {
	if r.states[size] == nil {
		fd, err := unix.MemfdCreate("state", unix.MFD_CLOEXEC)
		if err != nil {
			return nil, os.NewSyscallError("memfd_create", err)
		}
		file := os.NewFile(uintptr(fd), "state")
		if err := file.Truncate(int64(size)); err != nil {
			file.Close()
			return nil, err
		}
		r.states[size] = file
	}
	return r.states[size], nil
}

// version is the driver that a process is of.
func (c Test) version(what role) survive.Driver {
	if what.Before {
		return c.Before
	}
	return c.Driver
}

// order returns when the process has carried out the order, or has ended.
func (p *process) order(what byte) {
	_, _ = p.orders.Write([]byte{what})
	<-p.done
}

// abort ends all processes, and with them the connection: whoever waits for an answer gets an
// error. What fails from then on follows from that.
func (r *run) abort() {
	r.failed.close()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.aborted = true
	for _, p := range r.processes {
		_ = p.Kill()
	}
}

// be is the life of a process that serves. It does not return.
func (c Test) be(text string) {
	var mu sync.Mutex // guards to
	to := json.NewEncoder(os.NewFile(answersFD, "answers"))
	say := func(m message) {
		mu.Lock()
		defer mu.Unlock()
		_ = to.Encode(m) // else the test has ended
	}
	if err := c.carryOut(text, say); err != nil {
		say(message{err.Error(), true})
	}
	os.Exit(0)
}

// carryOut carries out orders, until there are no more.
func (c Test) carryOut(text string, say func(message)) error {
	var what role
	if err := json.Unmarshal([]byte(text), &what); err != nil {
		return err
	}
	agreed, err := connection.DecodeParams(what.Agreed)
	if err != nil {
		return err
	}
	report := func(problem string) { say(message{Problem: "the file system reports: " + problem}) }
	driver, site := c.version(what), survive.Site{Config: c.Site.Config, Volumes: store(what.Dir), Report: report}
	if what.Input {
		site.Input = os.NewFile(inputFD, "input")
	}
	for i := range what.CompanionFiles {
		site.CompanionFiles = append(site.CompanionFiles, os.NewFile(uintptr(companionFD+i), "companion's"))
	}
	if driver.State > 0 {
		site.State, err = unix.Mmap(companionFD+what.CompanionFiles, 0, driver.State, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		if err != nil {
			return os.NewSyscallError("mmap", err)
		}
	}
	// On a node, a process has neither the test's directory nor its environment.
	os.Clearenv()
	if err := os.Chdir("/"); err != nil {
		return err
	}
	if what.Confined {
		var sender *os.File
		last := len(site.CompanionFiles) - 1
		if driver.Sockets && last >= 0 {
			sender = site.CompanionFiles[last]
		}
		if err := enter(programOf(c.Driver), driver, what, sender); err != nil {
			return err
		}
		if sender != nil {
			site.CompanionFiles[last] = confine.Sender()
		}
	}
	files, err := fileSystem(driver, site)
	if err != nil && what.Confined {
		return fmt.Errorf("%w, in a process that is confined: %s", err, remedyOfConfined)
	} else if err != nil {
		return err
	}
	buffers, err := connection.NewBuffers(1, agreed, func(string) {})
	if err != nil {
		return err
	}
	say(message{})
	var conn *connection.Connection
	served := make(chan error, 1)
	for order := make([]byte, 1); ; say(message{}) {
		if n, _ := os.Stdin.Read(order); n == 0 {
			return nil
		}
		if order[0] == serve {
			if conn, err = connection.New(deviceFD, agreed, forgotten{files, report}, buffers, new(counters.Counters), report); err != nil {
				return err
			}
			go func() { served <- conn.Serve() }()
		} else if conn.Stop(); true {
			if err := <-served; err != nil {
				return fmt.Errorf("serve: %w", err)
			}
		}
	}
}

// enter confines this process as one that serves on a node.
func enter(program string, d survive.Driver, what role, sender *os.File) error {
	if err := confine.Become(confine.User{UID: what.UID, GID: confine.GroupOf(program)}, sender); err != nil {
		return err
	}
	rules := confine.Rules{Read: []string{what.Dir}, Sockets: d.Sockets}
	if what.Input {
		rules.Read = append(rules.Read, fmt.Sprintf("/proc/self/fd/%d", inputFD))
	}
	if d.Reads != nil {
		rules.Read = append(rules.Read, d.Reads()...)
	}
	_, err := confine.Enter(program, rules)
	return err
}

func programOf(d survive.Driver) string { return cmp.Or(d.Program, "survivetest") }

func store(dir string) volume.Store { return volume.Store{Dir: filepath.Join(dir, "volumes")} }

// fileSystem makes a driver's file system.
func fileSystem(d survive.Driver, site survive.Site) (files survive.FileSystem, err error) {
	defer func() {
		if reason := recover(); reason != nil {
			err = fmt.Errorf("Driver.FileSystem panics: %v", reason)
		}
	}()
	if d.FileSystem != nil {
		files = d.FileSystem(site)
	}
	if files == nil {
		err = errors.New("Driver.FileSystem is nil, or returns nil")
	}
	return files, err
}

// forgotten is a file system whose answers the kernel does not keep.
type forgotten struct {
	survive.FileSystem
	report func(problem string)
}

func (f forgotten) Lookup(cancel <-chan struct{}, in *fuse.InHeader, name string, out *fuse.EntryOut) fuse.Status {
	status := f.FileSystem.Lookup(cancel, in, name, out)
	out.EntryValid, out.EntryValidNsec, out.AttrValid, out.AttrValidNsec = 0, 0, 0, 0
	return status
}

func (f forgotten) GetAttr(cancel <-chan struct{}, in *fuse.GetAttrIn, out *fuse.AttrOut) fuse.Status {
	status := f.FileSystem.GetAttr(cancel, in, out)
	out.AttrValid, out.AttrValidNsec = 0, 0
	return status
}

func (f forgotten) Open(cancel <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	return f.opened("Open", f.FileSystem.Open(cancel, in, out), out)
}

func (f forgotten) OpenDir(cancel <-chan struct{}, in *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	return f.opened("OpenDir", f.FileSystem.OpenDir(cancel, in, out), out)
}

func (f forgotten) opened(what string, status fuse.Status, out *fuse.OpenOut) fuse.Status {
	if status.Ok() && out.Fh != 0 {
		f.report(what + " answers with a handle, and no other process knows what it stands for: leave Fh at 0, and go by node id and offset")
	}
	out.OpenFlags &^= fuse.FOPEN_KEEP_CACHE | fuse.FOPEN_CACHE_DIR
	// Another test of this binary may start a process: it closes this file before it executes,
	// while the whole test waits for it (syscall.forkExec), and nobody may serve just then.
	out.OpenFlags |= fuse.FOPEN_NOFLUSH
	return status
}
