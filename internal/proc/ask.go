package proc

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// execve(2) closes files, and close(2) of a FUSE file waits for its server: for ever, where that
// hangs. Meanwhile the process holds a lock that the kernel wants for many questions about it
// (fs/exec.c, exec_update_lock): for kcmp(2), and on Linux 6.18 for its namespaces, exe, root, cwd
// and stat in /proc. Its status, statm, cgroup, mountinfo, comm and limits, and the names of its
// threads and descriptors, are had without. All others go through Ask.

// An error of [Ask] that is one of these says that the kernel has told nothing.
var (
	// ErrExecutes says that a process is between two programs, in execve(2). It is, mostly for
	// microseconds, neither of them.
	ErrExecutes = errors.New("it is between two programs, in execve(2), and cannot be asked about")
	// ErrHangs says that a question has no answer for [AskTime], or another one about the process
	// that was asked before.
	ErrHangs = errors.New("the kernel does not answer about it")
)

// IsUntold tells whether an error is one of these.
func IsUntold(err error) bool { return errors.Is(err, ErrExecutes) || errors.Is(err, ErrHangs) }

// IsShort tells whether an error says that this process had no descriptor or no memory to ask with.
// That is nothing about the process that was asked about.
func IsShort(err error) bool {
	return errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) || errors.Is(err, unix.ENOMEM)
}

// AskTime is how long a question waits for its answer.
const AskTime = time.Second

// mostAsked is how many questions are under way at a time, those that hang with them: each has a
// thread, and Go ends a process that has ten thousand.
const mostAsked = 1000

// Ask has a question about a process answered that may hang. The question runs on a thread that is
// left behind when it has no answer in time, so it must not write to what its caller has. SIGKILL
// ends that thread with its process.
//
// Each process is asked one question at a time. So one that hangs costs one thread, and one wait:
// as long as its question has no answer, others about it fail at once.
func Ask[T any](pid int, question func() (T, error)) (answer T, err error) {
	none := answer
	if err := Executes(pid); err != nil {
		return none, err
	}
	ended, err := begin(pid)
	if err != nil {
		return none, untold(pid, err)
	}
	type reply struct {
		answer T
		err    error
	}
	replies := make(chan reply, 1)
	go func() {
		defer ended()
		answer, err := question()
		replies <- reply{answer, err}
	}()
	select {
	case r := <-replies:
		return r.answer, r.err
	case <-time.After(AskTime):
	}
	if err := Executes(pid); err != nil {
		return none, err
	}
	return none, untold(pid, ErrHangs)
}

// Link asks for a link of a process, such as "exe" or "ns/mnt".
func Link(pid int, name string) (string, error) {
	return Ask(pid, func() (string, error) { return os.Readlink("/proc/" + strconv.Itoa(pid) + "/" + name) })
}

// Executes returns [ErrExecutes] for a process between two programs, nil for others, and an error
// if there is none. The memory of the next program is there then, and nothing in it yet that could
// be executed (VmExe in its status; here from statm, which costs less). A kernel thread has no
// memory, nor has a process that has ended.
func Executes(pid int) error {
	text, err := Read("/proc/"+strconv.Itoa(pid)+"/statm", make([]byte, 0, 128), 1<<10)
	if err != nil {
		return err
	}
	const size, code = 0, 3 // man 5 proc_pid_statm
	fields := bytes.Fields(text)
	if len(fields) > code && string(fields[size]) != "0" && string(fields[code]) == "0" {
		return untold(pid, ErrExecutes)
	}
	return nil
}

func untold(pid int, err error) error { return fmt.Errorf("process %d: %w", pid, err) }

// asked has the questions that are under way, by the process.
var asked = struct {
	sync.Mutex
	about map[int]*question
}{about: map[int]*question{}}

type question struct {
	answered chan struct{} // closed when it is
	until    time.Time     // when it hangs
}

// begin waits for the end of a question about the same process that is under way.
func begin(pid int) (ended func(), err error) {
	for {
		asked.Lock()
		before, all := asked.about[pid], len(asked.about)
		if before == nil && all < mostAsked {
			q := &question{make(chan struct{}), time.Now().Add(AskTime)}
			asked.about[pid] = q
			asked.Unlock()
			return func() { q.end(pid) }, nil
		}
		asked.Unlock()
		if before == nil {
			return nil, ErrHangs
		}
		select {
		case <-before.answered:
		case <-time.After(time.Until(before.until)):
			return nil, ErrHangs
		}
	}
}

func (q *question) end(pid int) {
	asked.Lock()
	delete(asked.about, pid)
	asked.Unlock()
	close(q.answered)
}
