package mounter

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/internal/proc"
)

// childVerb is the subcommand that runs an errand. It is not for people.
const childVerb = "mounter-child"

// The descriptors of a child.
const (
	resultFD = 3 + iota // a pipe, for its result
	vaultFD             // the vault's mount namespace
	otherFD             // of some: /dev/fuse, the process, or the link
	moreFD              // of receive: its end of a socket pair
)

// errand is one of a child's.
type job struct {
	Kind string `json:"kind"` // see errands
	// Dir is the connection's directory in the vault.
	Dir string `json:"dir,omitempty"`
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
	// Namespaces are of mounts, such as mnt:[4026531841].
	Namespaces []string `json:"namespaces,omitempty"`
	Pod        string   `json:"pod,omitempty"` // the UID of creating's, without dashes
}

// result is what a child writes.
type result struct {
	Error string `json:"error,omitempty"`
	Again bool   `json:"again,omitempty"` // what it was to do does not fit what is there any more
	// Of creating, as in an event.
	Names   [][]byte `json:"names,omitempty"`
	Threads []uint32 `json:"threads,omitempty"`
	All     bool     `json:"all,omitempty"`

	then func() // what the child does when the mounter has the result
}

var errands = map[string]func(job) (result, error){
	"probe":    probe,
	"provoke":  provoke,
	"attach":   attachStandIns,
	"own":      attachOwn,
	"detach":   detach,
	"uncover":  uncover,
	"unmount":  unmountInVault,
	"creating": namesMade,
	"receive":  receive,
}

var (
	errHangs = errors.New("a file system on the way does not answer; the attempt was given up")
	errAgain = errors.New("the mounts have changed meanwhile")
)

// child is one on an errand.
type child struct {
	kind    string
	process *os.Process
	result  *os.File
	ended   chan struct{} // closed when it has: not even SIGKILL ends one that waits in the kernel
}

// send sends a child on an errand, and kills it when its time is up; 0: never.
func (m *mounter) send(limit time.Duration, j job, files ...*os.File) (result, error) {
	c, err := m.dispatch(j, files...)
	if err != nil {
		return result{}, fmt.Errorf("start a child: %w", err)
	}
	return c.wait(limit)
}

// dispatch sends a child, which is waited for once. It is never born in a pod's PID namespace: whoever is
// root there could stop it before it executes anything, and with it the thread of this process
// that waits for that.
func (m *mounter) dispatch(j job, files ...*os.File) (*child, error) {
	vault, there := m.vault()
	if !there {
		return nil, errNoVault
	}
	defer vault.Close()
	args, err := json.Marshal(j)
	if err != nil {
		return nil, err
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	process, err := spawn([]string{childVerb, string(args)}, append([]*os.File{w, vault}, files...)...)
	w.Close()
	if err != nil {
		r.Close()
		return nil, err
	}
	c := &child{kind: j.Kind, process: process, result: r, ended: make(chan struct{})}
	go func() {
		_, _ = process.Wait()
		close(c.ended)
	}()
	return c, nil
}

// wait returns what the child has done, and kills it when its time is up; 0: never.
func (c *child) wait(limit time.Duration) (result, error) {
	defer c.result.Close()
	if limit > 0 {
		_ = c.result.SetReadDeadline(time.Now().Add(limit))
	}
	text, err := io.ReadAll(io.LimitReader(c.result, 1<<16))
	if errors.Is(err, os.ErrDeadlineExceeded) {
		_ = c.process.Kill()
		return result{}, errHangs
	}
	var done result
	if err := json.Unmarshal(text, &done); err != nil {
		return result{}, fmt.Errorf("a child on errand %q has died", c.kind)
	}
	switch {
	case done.Again:
		err = fmt.Errorf("%w: %s", errAgain, done.Error)
	case done.Error != "":
		err = errors.New(done.Error)
	}
	return done, err
}

// errand is the life of a child.
func errand(args []string) error {
	flags, err := unix.FcntlInt(resultFD, unix.F_GETFL, 0)
	var j job
	if err != nil || flags&unix.O_ACCMODE != unix.O_WRONLY || len(args) != 1 || json.Unmarshal([]byte(args[0]), &j) != nil || errands[j.Kind] == nil {
		return fmt.Errorf("%q is what the driver starts by itself, not a command", childVerb)
	}
	unix.CloseOnExec(resultFD)
	unix.Umask(0)
	done, err := errands[j.Kind](j)
	if err != nil {
		done.Error, done.Again = err.Error(), errors.Is(err, errAgain)
		if len(done.Error) > 4096 {
			done.Error = done.Error[:4096]
		}
	}
	out := os.NewFile(resultFD, "result")
	// Who waits for it need not wait for threads that hang.
	err = errors.Join(json.NewEncoder(out).Encode(done), out.Close())
	if done.then != nil {
		done.then()
	}
	return err
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
