package mounter

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/internal/proc"
	"example.com/pod-info-fuse/podfuse/packet"
)

// childVerb is the subcommand that runs an errand. It is not for people.
const childVerb = "mounter-child"

// The descriptors of a child. All but the first are /dev/null until it has its errand.
const (
	errandFD = 3 + iota // a socket, by which the errand comes, and its result goes
	vaultFD             // the vault's mount namespace
	otherFD             // of some: /dev/fuse, the process, or the link
	moreFD              // of receive: its end of a socket pair
)

// job is an errand of a child's.
type job struct {
	Kind string `json:"kind"` // see errands
	// Dir is the connection's directory in the vault.
	Dir string `json:"dir,omitempty"` // of socket, the socket's path on the node
	// PID is the process whose mount namespace and root directory is entered. Its descriptor
	// comes along.
	PID      int       `json:"pid,omitempty"`
	StandIns []standIn `json:"standIns,omitempty"`
	Path     string    `json:"path,omitempty"` // in the container
	Device   uint64    `json:"device,omitempty"`
	UID      uint32    `json:"uid,omitempty"`
	GIDs     []uint32  `json:"gids,omitempty"`
	Dirs     []string  `json:"dirs,omitempty"` // in the vault
	Force    bool      `json:"force,omitempty"`
	PIDs     []int     `json:"pids,omitempty"`    // of take
	Devices  []uint64  `json:"devices,omitempty"` // of take
}

// result is what a child writes.
type result struct {
	Error string `json:"error,omitempty"`
	Again bool   `json:"again,omitempty"` // what it was to do does not fit what is there any more

	then func() // what the child does when the mounter has the result
}

var errands = map[string]func(job) (result, error){
	"probe":   probe,
	"attach":  attachStandIns,
	"own":     attachOwn,
	"detach":  detach,
	"uncover": uncover,
	"unmount": unmountInVault,
	"receive": receive,
	"socket":  renewSocket,
	"take":    take,
	"bury":    bury,
}

var (
	errHangs = errors.New("a file system on the way does not answer; the attempt was given up")
	errDied  = errors.New("a child has died on its errand")
	errAgain = errors.New("the mounts have changed meanwhile")
)

// child is one on an errand, or one that waits for it.
type child struct {
	kind    string // of the errand
	waited  bool   // it was ready before there was one
	born    time.Time
	process *os.Process
	link    *net.UnixConn
	runs    chan struct{} // closed when it waits for its errand, or never will
	begun   bool          // it does; to be read when runs is closed
	ended   chan struct{} // closed when it has: not even SIGKILL ends one that waits in the kernel
}

// send sends a child on an errand, and kills it when its time is up; 0: never.
func (m *mounter) send(limit time.Duration, j job, files ...*os.File) (result, error) {
	_, done, err := m.carryOut(limit, j, files...)
	return done, err
}

// carryOut sends a child on an errand as send does, and returns the child, too. If one dies, another one is sent, as the
// next mounter would; one that was ready may have been killed with all the others.
func (m *mounter) carryOut(limit time.Duration, j job, files ...*os.File) (c *child, done result, err error) {
	var until time.Time
	if limit > 0 {
		until = time.Now().Add(limit)
	}
	for range 2 {
		if c, err = m.dispatch(until, j, files...); err != nil {
			return nil, result{}, fmt.Errorf("start a child: %w", err)
		}
		if done, err = c.wait(until); !errors.Is(err, errDied) {
			break
		}
		if c.waited {
			m.ready.dismiss()
		}
		if limit > 0 && !time.Now().Before(until) {
			break // another one would be killed amid what it does
		}
	}
	return c, done, err
}

const (
	// mostHanging is how many children of a pod may have not ended when one more goes there to mount.
	mostHanging = 4
	// mostHangingOut is the same for one that unmounts, on which the end of a pod waits.
	mostHangingOut = 2 * mostHanging
	// MaxThreads is how many threads the mounter, its spare and all children may have together: one whose cgroup has no
	// room for another thread ends. 250 pods can have mostHangingOut children each, of six threads. Two are left of one
	// that hangs and was killed.
	MaxThreads = 16384
	// mostAborts is how many children may end connections at a time. These wait for no pod.
	mostAborts = 16
)

var errManyHang = errors.New("too many processes wait in the pod's containers for a file system that does not answer; see what is mounted there")

// podChildren are children that may wait for a file system of a pod's own, and no signal ends that: without a limit, a
// pod could have as many processes of root's as it likes, and the mounter would have no thread left.
type podChildren struct {
	running int            // that have not ended, with those that hang
	hanging map[string]int // that were killed because their time was up, and have not ended: by what they hang at
}

// hang is how many hang.
func (p *podChildren) hang() (n int) {
	for _, some := range p.hanging {
		n += some
	}
	return n
}

// hangsAt is what a child hangs at, if it does. Another one would hang there, too.
func (j job) hangsAt() string {
	switch {
	case j.Kind == "own": // the process is another one each time, and so is the generation
		id, _, _ := strings.Cut(j.Dir, ".")
		return fmt.Sprint(j.Kind, " ", id, " ", j.Path)
	case len(j.StandIns) > 0:
		return fmt.Sprint(j.Kind, " ", j.PID, " ", j.StandIns[0].Path)
	}
	return fmt.Sprint(j.Kind, " ", j.PID, " ", j.Path, " ", j.Dir, " ", j.Dirs, " ", j.Devices)
}

// mayEnter returns an error if so many children of a pod hang.
func (m *mounter) mayEnter(pod string, most int) (err error) {
	m.do(func() {
		if p := m.children[pod]; p != nil && p.hang() >= most {
			err = errManyHang
		}
	})
	return err
}

// enter sends a child that may wait for what a pod has, as soon as less than most of that pod's have not ended.
func (m *mounter) enter(pod string, most int, limit time.Duration, j job, files ...*os.File) error {
	until := time.Now().Add(limit)
	if err := m.awaitTurn(pod, most, until, j); err != nil {
		return err
	}
	c, _, err := m.carryOut(max(time.Until(until), time.Millisecond), j, files...)
	hangs := errors.Is(err, errHangs) // it was killed, which may not end it
	if hangs {
		m.do(func() { m.children[pod].hanging[j.hangsAt()]++ })
	}
	ended := func() {
		m.do(func() {
			p := m.children[pod]
			if p.running--; hangs {
				p.hanging[j.hangsAt()]--
			}
			if p.running == 0 {
				delete(m.children, pod)
			}
		})
	}
	if c == nil {
		ended()
	} else {
		go func() { <-c.ended; ended() }()
	}
	return err
}

// awaitTurn waits until a child may be sent, and counts it.
func (m *mounter) awaitTurn(pod string, most int, until time.Time, j job) error {
	for pauses := firstPause; ; pauses = min(2*pauses, killedTime) {
		var err error
		free := false
		m.do(func() {
			p := m.children[pod]
			if p == nil {
				p = &podChildren{hanging: map[string]int{}}
			}
			switch {
			case p.hanging[j.hangsAt()] > 0:
				err = fmt.Errorf("%w, and the child before still waits", errHangs)
			case p.hang() >= most:
				err = errManyHang
			case p.running < most:
				p.running++
				m.children[pod], free = p, true
			}
		})
		if err != nil || free {
			return err
		}
		if time.Now().After(until) {
			return errBusy
		}
		time.Sleep(pauses)
	}
}

// dispatch sends a child, which is waited for once. It must take its errand in time; the zero time: in childTime.
func (m *mounter) dispatch(until time.Time, j job, files ...*os.File) (*child, error) {
	vault, err := m.vault()
	if err != nil {
		return nil, err
	}
	defer vault.Close()
	text, err := json.Marshal(j)
	if err != nil {
		return nil, err
	}
	files = append([]*os.File{vault}, files...)
	left := childTime
	if !until.IsZero() {
		left = min(left, time.Until(until))
	}
	if c := m.ready.take(); c != nil {
		if c.waited = true; c.give(left/2, j.Kind, text, files) == nil {
			return c, nil
		}
		c.giveUp() // killed or stopped: there is time left for another one
		left /= 2
	}
	c, err := newChild()
	if err == nil {
		if err = c.give(left, j.Kind, text, files); err != nil {
			c.giveUp()
		}
	}
	return c, err
}

// giveUp is for who has no errand, or does not take it.
func (c *child) giveUp() {
	_ = c.process.Kill()
	c.link.Close()
}

// newChild starts one that waits for its errand. It is never born in a pod's PID namespace: whoever is
// root there could stop it before it executes anything, and with it the thread of this process
// that waits for that.
func newChild() (*child, error) {
	ours, theirs, err := packet.Pair()
	if err != nil {
		return nil, err
	}
	defer ours.Close()
	defer theirs.Close()
	null, err := os.Open(os.DevNull)
	if err != nil {
		return nil, err
	}
	defer null.Close()
	conn, err := net.FileConn(ours)
	if err != nil {
		return nil, err
	}
	process, err := spawn(0, []string{childVerb}, theirs, null, null, null)
	if err != nil {
		conn.Close()
		return nil, err
	}
	c := &child{born: time.Now(), process: process, link: conn.(*net.UnixConn), runs: make(chan struct{}), ended: make(chan struct{})}
	go func() {
		_, err := c.link.Read(make([]byte, 1))
		c.begun = err == nil
		close(c.runs)
	}()
	go func() {
		_, _ = process.Wait()
		close(c.ended)
	}()
	return c, nil
}

// mostOfErrand is how much of an errand is in a packet, in bytes: the paths of a container may be long.
const mostOfErrand = 16 << 10

// give gives a child its errand, which it must take in a time.
func (c *child) give(limit time.Duration, kind string, text []byte, files []*os.File) error {
	c.kind = kind
	rights, err := packet.Rights(files)
	if err != nil {
		return err
	}
	defer runtime.KeepAlive(files)
	_ = c.link.SetWriteDeadline(time.Now().Add(limit))
	for some := range slices.Chunk(text, mostOfErrand) {
		if _, _, err := c.link.WriteMsgUnix(some, rights, nil); err != nil {
			return err
		}
		rights = nil
	}
	return nil
}

// mostOfResult is how long a result can be, in bytes.
const mostOfResult = 64 << 10

// wait returns what the child has done, and kills it when its time is up; the zero time: never. But it must take its
// errand in time, or one that is stopped would have no limit. One that was ready has half of it, so that there is time
// for another one.
func (c *child) wait(until time.Time) (result, error) {
	defer c.link.Close()
	left, grace := childTime, childTime/4
	if !until.IsZero() {
		left = min(left, time.Until(until))
	}
	if c.waited {
		left /= 2
	}
	_ = c.link.SetReadDeadline(time.Now().Add(left))
	if !c.takes() {
		_ = c.process.Kill()
		if !until.IsZero() {
			grace = min(grace, time.Until(until))
		}
		select { // or another one might be at it beside
		case <-c.ended:
		case <-time.After(grace):
		}
		return result{}, fmt.Errorf("%w, %q", errDied, c.kind)
	}
	_ = c.link.SetReadDeadline(until)
	text := make([]byte, mostOfResult)
	n, err := c.link.Read(text)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		_ = c.process.Kill()
		return result{}, errHangs
	}
	var done result
	if err := json.Unmarshal(text[:n], &done); err != nil {
		return result{}, fmt.Errorf("%w, %q", errDied, c.kind)
	}
	switch {
	case done.Again:
		err = fmt.Errorf("%w: %s", errAgain, done.Error)
	case done.Error != "":
		err = errors.New(done.Error)
	}
	return done, err
}

// takes tells whether it has its errand, which it says.
func (c *child) takes() bool {
	if <-c.runs; !c.begun {
		return false
	}
	_, err := c.link.Read(make([]byte, 1))
	return err == nil
}

// errand is the life of a child.
func errand(args []string) error {
	kind, err := unix.GetsockoptInt(errandFD, unix.SOL_SOCKET, unix.SO_TYPE)
	if err != nil || kind != unix.SOCK_SEQPACKET || len(args) != 0 {
		return fmt.Errorf("%q is what the driver starts by itself, not a command", childVerb)
	}
	unix.CloseOnExec(errandFD)
	unix.Umask(0)
	// The mounter's cgroup has a limit of memory, too, and a pod can have many children hang. The kernel kills these first.
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte("1000"), 0)
	link := os.NewFile(errandFD, "errand")
	if _, err := link.WriteString("runs"); err != nil {
		return nil // nobody needs it
	}
	j, err := awaitErrand(link)
	if err == io.EOF {
		return nil // nobody needs it
	} else if err != nil {
		return err
	}
	if _, err := link.WriteString("goes"); err != nil {
		return nil // another one does it
	}
	done, err := errands[j.Kind](j)
	if err != nil {
		done.Error, done.Again = err.Error(), errors.Is(err, errAgain)
		if len(done.Error) > 4096 {
			done.Error = done.Error[:4096]
		}
	}
	// Who waits for it need not wait for what comes then, nor for this process's end.
	err = errors.Join(json.NewEncoder(link).Encode(done), link.Close())
	if done.then != nil {
		done.then()
	}
	return err
}

// awaitErrand receives an errand, and puts its descriptors where they are expected.
func awaitErrand(link *os.File) (j job, err error) {
	text, rights := make([]byte, mostOfErrand), make([]byte, unix.CmsgSpace(4*3))
	n, r := 0, 0
	for {
		n, r, _, _, err = unix.Recvmsg(errandFD, text, rights, unix.MSG_CMSG_CLOEXEC)
		if err != unix.EINTR {
			break
		}
	}
	if err != nil {
		return j, os.NewSyscallError("recvmsg", err)
	} else if n == 0 {
		return j, io.EOF
	}
	messages, err := unix.ParseSocketControlMessage(rights[:r])
	if err != nil || len(messages) != 1 {
		return j, errors.Join(errors.New("an errand comes without descriptors"), err)
	}
	numbers, err := unix.ParseUnixRights(&messages[0])
	if err != nil {
		return j, err
	}
	for i, number := range numbers {
		if err := unix.Dup3(number, vaultFD+i, unix.O_CLOEXEC); err != nil {
			return j, os.NewSyscallError("dup3", err)
		}
		unix.Close(number)
	}
	more := bufio.NewReaderSize(link, mostOfErrand) // who reads packets has room for a whole one
	err = json.NewDecoder(io.MultiReader(bytes.NewReader(text[:n]), more)).Decode(&j)
	if err == nil && errands[j.Kind] == nil {
		err = fmt.Errorf("there is no errand %q", j.Kind)
	}
	return j, err
}

// container is a process's mount namespace and root directory.
type container struct{ namespace, root int }

// openContainer opens them while this process's /proc is there.
func openContainer(pid int) (c container, err error) {
	open := func(name string, flags int) int {
		fd, openErr := unix.Open(fmt.Sprintf("/proc/%d/%s", pid, name), flags|unix.O_CLOEXEC, 0)
		if openErr != nil {
			err = errors.Join(err, fmt.Errorf("open %s of process %d: %w", name, pid, openErr))
		}
		return fd
	}
	c = container{open("ns/mnt", unix.O_RDONLY), open("root", unix.O_PATH|unix.O_DIRECTORY)}
	if err == nil {
		err = aliveAt(otherFD, pid)
	}
	return c, err
}

// enter makes the thread one of the container's.
func (c container) enter() error {
	for _, step := range []struct {
		what string
		do   func() error
	}{
		{"enter the container's mount namespace", func() error { return unix.Setns(c.namespace, unix.CLONE_NEWNS) }},
		{"enter its root directory", func() error { return unix.Fchdir(c.root) }},
		{"change the root directory", func() error { return unix.Chroot(".") }},
	} {
		if err := step.do(); err != nil {
			return fmt.Errorf("%s: %w", step.what, err)
		}
	}
	return nil
}

// inContainer calls a function on a thread that has the mount namespace and the root directory of a process.
func inContainer(pid int, f func() error) error {
	there, err := openContainer(pid)
	if err != nil {
		return err
	}
	return proc.OnThread(func() error {
		if err := there.enter(); err != nil {
			return err
		}
		return f()
	})
}
