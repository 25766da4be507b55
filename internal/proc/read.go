package proc

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"
)

// Read reads a file below /proc that has less than so many bytes, into a buffer that may be empty.
// It is for looks at all processes: package os has ten times the work with each file.
func Read(path string, buffer []byte, most int) ([]byte, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(fd)
	for buffer = buffer[:0]; len(buffer) < most; {
		if len(buffer) == cap(buffer) {
			buffer = slices.Grow(buffer, 512)
		}
		n, err := unix.Read(fd, buffer[len(buffer):min(cap(buffer), most)])
		switch {
		case err == unix.EINTR:
		case err != nil:
			return nil, &fs.PathError{Op: "read", Path: path, Err: err} // ESRCH, EINVAL: it has ended
		case n == 0:
			return buffer, nil
		default:
			buffer = buffer[:len(buffer)+n]
		}
	}
	return nil, fmt.Errorf("%s has too much in it: %d bytes or more", path, most)
}

// PIDs lists all processes but the kernel's own threads, which are most of a node's. With an error,
// some are missing.
func PIDs() (pids []int, err error) {
	kernel := kernelThreads()
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil && !kernel[pid] {
			pids = append(pids, pid)
		}
	}
	return pids, err
}

// threadDaemon is kthreadd, the parent of all kernel threads. Its number is in the first PID
// namespace only, and in that always this one (init/main.c, rest_init).
const threadDaemon = 2

// hasThreadDaemon tells whether this process is in that namespace.
var hasThreadDaemon = sync.OnceValue(func() bool {
	text, err := Ask(threadDaemon, func() ([]byte, error) {
		return Read(fmt.Sprintf("/proc/%d/stat", threadDaemon), make([]byte, 0, 512), 1<<10)
	})
	const (
		flags        = 9 - 3      // of the fields after the name, which may have anything in it: man 5 proc_pid_stat
		kernelThread = 0x00200000 // PF_KTHREAD (include/linux/sched.h)
	)
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	if err != nil || len(fields) <= flags {
		return false
	}
	set, err := strconv.ParseUint(string(fields[flags]), 10, 64)
	return err == nil && set&kernelThread != 0
})

// kernelThreads are the children of kthreadd: some may be missing (man 5 proc_tid_children). What
// the kernel executes for itself, such as a handler of core dumps, is one of them, too; it is in no
// pod, nor in its namespaces.
func kernelThreads() map[int]bool {
	if !hasThreadDaemon() {
		return nil
	}
	text, err := Read(fmt.Sprintf("/proc/%d/task/%[1]d/children", threadDaemon), make([]byte, 0, 4<<10), 1<<20)
	if err != nil { // a kernel without CONFIG_PROC_CHILDREN
		return nil
	}
	threads := map[int]bool{}
	for number := range bytes.FieldsSeq(text) {
		if pid, err := strconv.Atoi(string(number)); err == nil {
			threads[pid] = true
		}
	}
	return threads
}
