package mounter

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"

	"example.com/pod-info-fuse/internal/filelock"
	"example.com/pod-info-fuse/internal/proc"
)

// A call-out may be in another PID namespace than the mounter: that of a kubelet in a container
// that shares the run directory, say. There, the numbers of the mounter's processes are others'. So
// such a call-out ends and replaces no mounter, and kills nobody: it is refused. Who the mounter
// is, the kernel tells by its lock.

// errElsewhere says that the mounter is in another PID namespace.
var errElsewhere = errors.New("the mounter is in another PID namespace; call the driver in the namespaces in which the mounter was started")

// itself opens the process that is the mounter. The error is errNone if there is none.
func (c Config) itself() (*process, error) {
	// Who has the lock must not call this: to close the file gives it up (man 2 fcntl_locking).
	file, err := os.OpenFile(c.lockPath(), os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errNone
	} else if err != nil {
		return nil, err
	}
	defer file.Close()
	const tries = 5 // its spare may take over meanwhile
	for range tries {
		pid, err := lockHolder(file)
		if err != nil {
			return nil, err
		}
		p, err := openProcess(pid)
		if err != nil {
			continue
		}
		still, lockErr := lockHolder(file)
		theirs, linkErr := proc.Link(p.PID, "ns/pid")
		ours, err := proc.Link(os.Getpid(), "ns/pid")
		switch {
		case lockErr != nil || linkErr != nil || still != p.PID || p.Alive() != nil: // another one takes over
			p.Close()
		case err != nil || ours != theirs:
			p.Close()
			return nil, errors.Join(errElsewhere, err)
		default:
			return p, nil
		}
	}
	return nil, errors.New("the processes that are the mounter end, one after the other")
}

// Usage is what the mounter uses, and its spare. Each is nil if there is none, or if the kernel
// does not confirm that the process is the one which the mounter names. It needs no capability.
func (c Client) Usage(now Status) (mounter, spare *proc.Usage) {
	file, err := os.OpenFile(c.lockPath(), os.O_RDWR, 0)
	if err != nil {
		return nil, nil
	}
	defer file.Close()
	p, err := openProcess(now.PID)
	if err != nil {
		return nil, nil
	}
	defer p.Close()
	if holder, err := lockHolder(file); err != nil || holder != p.PID {
		return nil, nil
	}
	if s, err := childOf(p.PID, now.Spare); err == nil {
		defer s.Close()
		spare = s.usage()
	}
	return p.usage(), spare
}

// usage is nil if the process has ended.
func (p *process) usage() *proc.Usage {
	u, err := proc.UsageOf(p.PID)
	if err != nil || p.Alive() != nil {
		return nil
	}
	return &u
}

// lockHolder is the number that the process which has the mounter's lock has here.
func lockHolder(file *os.File) (int, error) {
	pid, held, err := filelock.Holder(file, 0, 0)
	if err != nil {
		return 0, err
	}
	// /proc may be that of another namespace, too.
	self, err := os.Readlink("/proc/self")
	switch {
	case !held:
		return 0, errNone
	case err != nil:
		return 0, err
	case pid == 0 || self != strconv.Itoa(os.Getpid()):
		return 0, errElsewhere
	}
	return pid, nil
}

// childOf opens the child of a process.
func childOf(parent, pid int) (*process, error) {
	p, err := openProcess(pid)
	if err != nil {
		return nil, err
	}
	status, err := proc.StatusIn(fmt.Sprintf("/proc/%d", pid))
	if err == nil && (p.PID != pid || status["PPid"] != strconv.Itoa(parent)) {
		err = fmt.Errorf("process %d has no child that is process %d", parent, pid)
	}
	if err = errors.Join(err, p.Alive()); err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}
