package mounter

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/internal/filelock"
	"example.com/pod-info-fuse/internal/proc"
	"example.com/pod-info-fuse/podfuse/packet"
)

// A process has another number in each PID namespace, and a call-out may be in another one than the mounter: that of
// a kubelet in a container that shares the run directory, say. So what one says of the other's processes, or of its
// own, kills nobody. The kernel tells, in numbers of this process's namespace, who has the mounter's lock, and who has
// connected a socket. All others are children of these, and /proc knows what number each has in its own namespace
// (man 5 proc_pid_status, NSpid).

// errElsewhere says that the mounter is in a PID namespace that is neither this one nor below it.
var errElsewhere = errors.New("the mounter is in another PID namespace, where this one does not show it; call the driver in the namespaces in which the mounter was started")

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
		if still, err := lockHolder(file); err == nil && still == p.pid {
			return p, nil
		}
		p.close()
	}
	return nil, errors.New("the processes that are the mounter end, one after the other")
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

// called opens the process that is the mounter, if it has a number in its own PID namespace.
func (c Config) called(number int) (*process, error) {
	p, err := c.itself()
	if err != nil {
		return nil, err
	}
	numbers, err := p.numbers()
	if err == nil && !isCalled(numbers, number) {
		err = fmt.Errorf("it is process %v", numbers)
	}
	if err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

// numbers are those that a process, which is alive afterwards, has in the PID namespaces from this one to its own.
func (p *process) numbers() ([]string, error) {
	status, err := proc.StatusIn(fmt.Sprintf("/proc/%d", p.pid))
	if err == nil {
		err = p.alive()
	}
	return status.NSpid(), err
}

// isCalled tells whether a process has a number in its own PID namespace.
func isCalled(numbers []string, number int) bool {
	return len(numbers) > 0 && numbers[len(numbers)-1] == strconv.Itoa(number)
}

// childOf opens the child of a process that has a number in its own PID namespace.
func childOf(parent, number int) (*process, error) {
	is := func(pid int) bool {
		status, err := proc.StatusIn(fmt.Sprintf("/proc/%d", pid))
		return err == nil && status["PPid"] == strconv.Itoa(parent) && isCalled(status.NSpid(), number)
	}
	pids, err := proc.PIDs()
	for _, pid := range slices.Concat([]int{number}, pids) { // it is mostly the first one
		if !is(pid) {
			continue
		}
		p, err := openProcess(pid)
		if err != nil {
			continue
		}
		if p.pid == pid && is(pid) && p.alive() == nil {
			return p, nil
		}
		p.close()
	}
	return nil, errors.Join(fmt.Errorf("process %d has no child that is %d where it is", parent, number), err)
}

// kill kills a process. One that has ended is no error.
func (p *process) kill() error {
	number, err := packet.Number(p.fd)
	if err == nil {
		err = unix.PidfdSendSignal(number, unix.SIGKILL, nil, 0)
	}
	if err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("kill process %d: %w", p.pid, err)
	}
	return nil
}
