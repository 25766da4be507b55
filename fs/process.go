package fs

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/internal/proc"
)

// threads tells which process a thread belongs to. It remembers guesses only: the kernel
// confirms each answer.
type threads struct {
	guesses [64]atomic.Uint64 // a thread's id above, its process's below
}

// group returns the process that a thread belongs to. FUSE requests
// carry the id of the thread that made them, in the PID namespace of the process
// that mounted the file system (fs/fuse/dev.c, fuse_get_req), which must be
// ours. ESRCH: the reader is in none of the PID namespaces below it (the kernel
// says 0), or is gone.
func (t *threads) group(thread uint32) (uint32, error) {
	if thread == 0 {
		return 0, unix.ESRCH
	}
	slot := &t.guesses[thread%uint32(len(t.guesses))]
	guess := thread // as most programs have one thread
	if g := slot.Load(); uint32(g>>32) == thread {
		guess = uint32(g)
	}
	// tgkill(g, t, 0) asks whether t is of the thread group g, in one system call. EPERM and
	// EACCES, of a security module, mean that it is, and that we may not signal it.
	switch err := unix.Tgkill(int(guess), int(thread), 0); {
	case err == nil, errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
		return guess, nil
	case !errors.Is(err, unix.ESRCH):
		return 0, err
	}
	process, err := leader(thread)
	if err != nil && err != unix.ESRCH {
		process, err = leaderByProc(thread)
	}
	if err == nil {
		slot.Store(uint64(thread)<<32 | uint64(process))
	}
	return process, err
}

// leader asks for a thread's process by a pidfd, since Linux 6.13. That needs no /proc, which may
// be mounted so that it hides the processes of other users (hidepid=, man 5 proc).
func leader(thread uint32) (uint32, error) {
	const pidfdThread = unix.O_EXCL // PIDFD_THREAD, Linux 6.9
	fd, err := unix.PidfdOpen(int(thread), pidfdThread)
	if err != nil {
		return 0, err
	}
	defer unix.Close(fd)
	// PIDFD_GET_INFO, Linux 6.13. The number of an ioctl has the size of its
	// structure in it, of which the kernel fills what it knows.
	info := unix.PidfdInfo{Mask: unix.PIDFD_INFO_PID}
	err = unix.IoctlPidfdInfo(fd, &info)
	return info.Tgid, err
}

// Reads lists what the file system must read beside the volumes' records and the facts:
// /proc, if this kernel is older than 6.13.
func Reads() []string {
	if _, err := leader(uint32(os.Getpid())); err != nil {
		return []string{"/proc"}
	}
	return nil
}

// leaderByProc reads a thread's process from /proc.
func leaderByProc(thread uint32) (uint32, error) {
	status, err := proc.StatusIn(fmt.Sprintf("/proc/%d", thread))
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ESRCH) {
		return 0, unix.ESRCH
	} else if err != nil {
		return 0, err
	}
	process, err := strconv.ParseUint(status["Tgid"], 10, 32)
	return uint32(process), err
}
