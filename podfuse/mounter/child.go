package mounter

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/internal/mount"
	"example.com/pod-info-fuse/internal/proc"
)

// childVerb is the subcommand that runs an errand. It is not for people.
const childVerb = "mounter-child"

// The descriptors of a child.
const (
	errandFD = 3 + iota // a pipe, by which the errand comes
	resultFD            // a pipe, by which its result goes
	vaultFD             // the vault's mount namespace
	otherFD             // of some: /dev/fuse, the process, or the link
	moreFD              // of receive: its end of a socket pair
)

// job is an errand of a child's.
type job struct {
	Kind string `json:"kind"` // see errands
	// Dir is the connection's directory in the vault.
	Dir string `json:"dir,omitempty"`
	// PID is the process whose mount namespace and root directory is entered. Its descriptor
	// comes along.
	PID      int       `json:"pid,omitempty"`
	StandIns []standIn `json:"standIns,omitempty"`
	Path     string    `json:"path,omitempty"` // in the container; of socket, on the node
	Device   uint64    `json:"device,omitempty"`
	UID      uint32    `json:"uid,omitempty"`
	GIDs     []uint32  `json:"gids,omitempty"`
	Server   uint64    `json:"server,omitempty"` // the device that Path is on, if it is a server volume's directory for this
	Dirs     []string  `json:"dirs,omitempty"`   // in the vault
	Force    bool      `json:"force,omitempty"`
	PIDs     []int     `json:"pids,omitempty"` // of take
}

// result is what a child writes.
type result struct {
	Error string `json:"error,omitempty"`
	Again bool   `json:"again,omitempty"` // what it was to do does not fit what is there any more

	then func() // what the child does when the mounter has the result
}

var errands = map[string]func(job) (result, error){
	"attach":  attachStandIns,
	"own":     attachOwn,
	"uncover": uncover,
	"unmount": unmountInVault,
	"receive": receive,
	"socket":  renewSockets,
	"take":    take,
	"bury":    uncover,
}

var (
	errHangs = errors.New("a file system on the way does not answer, or the machine is too busy; the attempt was given up")
	errDied  = errors.New("a child has died on its errand")
	errAgain = errors.New("the mounts have changed meanwhile")
)

// child is one on an errand.
type child struct {
	process *os.Process
	errand  *os.File // our ends of its pipes
	result  *os.File
	ended   chan struct{} // closed when it has: not even SIGKILL ends one that waits in the kernel
}

// children are sent on errands.
type children struct {
	*base
	of     map[string]*podChildren // by the pod's UID, without dashes
	aborts chan struct{}           // taken by those that end connections
}

// send sends a child on an errand, and kills it when its time is up.
func (m *children) send(limit time.Duration, j job, files ...*os.File) (result, error) {
	_, done, err := m.carryOut(limit, j, files...)
	return done, err
}

// carryOut sends a child on an errand as send does, and returns the child, too. If one dies,
// another one is sent, as the next mounter would.
func (m *children) carryOut(limit time.Duration, j job, files ...*os.File) (c *child, done result, err error) {
	vault, err := m.vault()
	if err != nil {
		return nil, done, fmt.Errorf("start a child: %w", err)
	}
	defer vault.Close()
	until := time.Now().Add(limit)
	for range 2 {
		if c, err = newChild(0, append([]*os.File{vault}, files...)...); err != nil {
			return nil, done, fmt.Errorf("start a child: %w", err)
		}
		if done, err = c.carryOut(until, j); !errors.Is(err, errDied) || !time.Now().Before(until) {
			break
		}
		select { // or another one might be at it beside
		case <-c.ended:
		case <-time.After(time.Until(until)):
		}
	}
	return c, done, err
}

const (
	// mostHanging is how many children of a pod may have not ended when one more goes there to
	// mount.
	mostHanging = 4
	// mostHangingOut is the same for one that unmounts, on which the end of a pod waits.
	mostHangingOut = 2 * mostHanging
	// MaxThreads is how many threads the mounter, its spare and all children may have together: one
	// whose cgroup has no room for another thread ends. 250 pods can have mostHangingOut children
	// each, of seven threads. Two are left of one that hangs and was killed.
	MaxThreads = 16384
	// mostAborts is how many children may end connections at a time. These wait for no pod.
	mostAborts = 16
)

var errManyHang = errors.New("too many processes wait in the pod's containers for a file system that does not answer; see what is mounted there")

// podChildren are children that may wait for a file system of a pod's own, and no signal ends that:
// without a limit, a pod could have as many processes of root's as it likes, and the mounter would
// have no thread left.
type podChildren struct {
	running int // that have not ended, with those that hang
	hanging int // that were killed because their time was up, and have not ended
}

// enter sends a child that may wait for what a pod has, as soon as less than most of that pod's
// have not ended.
func (m *children) enter(pod string, most int, limit time.Duration, j job, files ...*os.File) error {
	until := time.Now().Add(limit)
	if err := m.awaitTurn(pod, most, until); err != nil {
		return err
	}
	c, _, err := m.carryOut(max(time.Until(until), time.Millisecond), j, files...)
	hangs := 0
	if errors.Is(err, errHangs) { // it was killed, which may not end it
		hangs = 1
	}
	m.do(func() { m.of[pod].hanging += hangs })
	go func() {
		if c != nil {
			<-c.ended
		}
		m.do(func() {
			p := m.of[pod]
			p.running, p.hanging = p.running-1, p.hanging-hangs
			if p.running == 0 {
				delete(m.of, pod)
			}
		})
	}()
	return err
}

// awaitTurn waits until a child may be sent, and counts it. It does not wait for children that
// hang: an order that waits takes one of the places that the orders of all pods have (mostOrders).
func (m *children) awaitTurn(pod string, most int, until time.Time) error {
	for pauses := firstPause; ; pauses = min(2*pauses, killedTime) {
		free, hang := false, false
		m.do(func() {
			p := m.of[pod]
			if p == nil {
				p = &podChildren{}
				m.of[pod] = p
			}
			if hang, free = p.hanging >= most, p.running < most; free {
				p.running++
			}
		})
		switch {
		case free:
			return nil
		case hang:
			return errManyHang
		case time.Now().After(until):
			return errBusy
		}
		time.Sleep(pauses)
	}
}

// abortIn ends the connections in directories of the vault. No pod can hold the child up.
func (m *children) abortIn(dirs []string) error {
	m.aborts <- struct{}{}
	defer func() { <-m.aborts }()
	_, err := m.send(childTime, job{Kind: "unmount", Dirs: dirs, Force: true})
	return err
}

// newChild starts one, in new namespaces, which waits for its errand. It is never born in a pod's
// PID namespace: whoever is root there could stop it before it executes anything, and with it the
// thread of this process that waits for that.
func newChild(namespaces uintptr, files ...*os.File) (*child, error) {
	errand, ours, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer errand.Close()
	theirs, result, err := os.Pipe()
	if err != nil {
		ours.Close()
		return nil, err
	}
	defer result.Close()
	c := &child{errand: ours, result: theirs, ended: make(chan struct{})}
	if c.process, err = proc.StartSelf(environment, namespaces, []string{childVerb}, append([]*os.File{errand, result}, files...)...); err != nil {
		c.close()
		return nil, err
	}
	go func() {
		_, _ = c.process.Wait()
		close(c.ended)
	}()
	return c, nil
}

func (c *child) close() {
	c.errand.Close()
	c.result.Close()
}

// mostOfResult is how long a result can be, in bytes.
const mostOfResult = 64 << 10

// carryOut gives a child its errand and returns what it has done. One that takes longer is killed.
func (c *child) carryOut(until time.Time, j job) (done result, err error) {
	defer c.close()
	if err = errors.Join(c.errand.SetWriteDeadline(until), c.result.SetReadDeadline(until)); err == nil {
		err = json.NewEncoder(c.errand).Encode(j)
	}
	if err == nil {
		err = json.NewDecoder(io.LimitReader(c.result, mostOfResult)).Decode(&done)
	}
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		_ = c.process.Kill()
		return result{}, errHangs
	case err != nil:
		_ = c.process.Kill()
		return result{}, fmt.Errorf("%w, %q", errDied, j.Kind)
	case done.Again:
		err = fmt.Errorf("%w: %s", errAgain, done.Error)
	case done.Error != "":
		err = errors.New(done.Error)
	}
	return done, err
}

// errand is the life of a child.
func errand(args []string) error {
	var stat unix.Stat_t
	if err := unix.Fstat(errandFD, &stat); err != nil || stat.Mode&unix.S_IFMT != unix.S_IFIFO || len(args) != 0 {
		return fmt.Errorf("%q is what the driver starts by itself, not a command", childVerb)
	}
	for fd := errandFD; fd <= moreFD; fd++ {
		unix.CloseOnExec(fd)
	}
	unix.Umask(0)
	// The mounter's cgroup has a limit of memory, too, and a pod can have many children hang. The
	// kernel kills these first.
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte("1000"), 0)
	var j job
	pipe := os.NewFile(errandFD, "errand")
	if err := json.NewDecoder(pipe).Decode(&j); err == io.EOF {
		return nil // nobody needs it
	} else if err != nil {
		return err
	}
	// The end of the pipe is the mounter's death: the next mounter sends a child of its own, and
	// does not count this one, which could keep a program's connection from ending.
	var answers atomic.Bool
	go func() {
		_, _ = io.Copy(io.Discard, pipe)
		if !answers.Load() {
			os.Exit(1)
		}
	}()
	carryOut := errands[j.Kind]
	if carryOut == nil {
		return fmt.Errorf("there is no errand %q", j.Kind)
	}
	done, err := carryOut(j)
	if err != nil {
		done.Error, done.Again = err.Error(), errors.Is(err, errAgain)
		if len(done.Error) > 4096 {
			done.Error = done.Error[:4096]
		}
	}
	answers.Store(true) // the mounter closes the pipe when it has the result
	// Who waits for it need not wait for what comes then, nor for this process's end.
	result := os.NewFile(resultFD, "result")
	err = errors.Join(json.NewEncoder(result).Encode(done), result.Close())
	if done.then != nil {
		done.then()
	}
	return err
}

// inContainer calls a function on a thread that has the mount namespace and the root directory of a
// process.
func inContainer(pid int, f func() error) (err error) {
	open := func(name string, flags int) int { // by this process's /proc, and not the container's
		fd, openErr := unix.Open(fmt.Sprintf("/proc/%d/%s", pid, name), flags|unix.O_CLOEXEC, 0)
		if openErr != nil {
			err = errors.Join(err, fmt.Errorf("open %s of process %d: %w", name, pid, openErr))
		}
		return fd
	}
	namespace, root := open("ns/mnt", unix.O_RDONLY), open("root", unix.O_PATH|unix.O_DIRECTORY)
	if err == nil {
		err = proc.AliveAt(otherFD, pid)
	}
	if err != nil {
		return err
	}
	return mount.Inside(namespace, func() error {
		if err := unix.Fchdir(root); err != nil {
			return fmt.Errorf("enter the container's root directory: %w", err)
		}
		if err := unix.Chroot("."); err != nil {
			return fmt.Errorf("change the root directory: %w", err)
		}
		return f()
	})
}
