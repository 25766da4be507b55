package pair

import (
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// env is all that a process asks of the system. A test takes the system's place, with many
// processes in virtual time.
type env interface {
	// take takes the lock of a byte of daemon.lock, if nobody else has it.
	take(b int64) bool
	release(b int64)
	// holder is somebody unknown where the kernel does not say: that is no proof that the
	// lock is free, and nobody need wait for it to be taken.
	holder(b int64) Holder
	kill(pid int)
	// spawn starts a process of this version. end kills it, if it has not ended.
	spawn() (l link, end func(), err error)
	// control passes on the commands of clients of the control socket, for as long as the
	// process lives.
	control(chan<- request)
	// awake readies the memory of a process that is to serve.
	awake()
}

// system is the env of a process of the pair.
type system struct {
	Resources
	args []string
	log  Logger

	lockless sync.Once // logs that locks do not work
}

// The process must not close any descriptor of the file while it has a lock: that would
// release all of its locks (man 2 fcntl_locking).
func (s *system) take(b int64) bool {
	lock := byteLock(unix.F_WRLCK, b)
	err := unix.FcntlFlock(s.Lock.Fd(), unix.F_SETLK, &lock)
	if err != unix.EAGAIN && err != unix.EACCES && err != unix.EINTR {
		s.works(err)
	}
	return err == nil
}

func (s *system) release(b int64) {
	lock := byteLock(unix.F_UNLCK, b)
	s.works(unix.FcntlFlock(s.Lock.Fd(), unix.F_SETLK, &lock))
}

func (s *system) holder(b int64) Holder {
	holder, err := holderOf(s.Lock, b)
	if err != nil {
		s.works(err)
		return Holder{Held: true}
	}
	return holder
}

// works logs that the locks do not work, once. The pair serves all the same.
func (s *system) works(err error) {
	if err != nil {
		s.lockless.Do(func() { s.log("the locks of daemon.lock do not work: %v", err) })
	}
}

func (s *system) kill(pid int) {
	if err := unix.Kill(pid, unix.SIGKILL); err != nil {
		s.log("kill process %d: %v", pid, err)
	}
}

// spawn starts a process that inherits the confinement of this one.
func (s *system) spawn() (link, func(), error) {
	ours, theirs, err := linkPair(s.log)
	if err != nil {
		return nil, nil, err
	}
	defer theirs.Close()
	process, err := spawn(s.args, s.Resources, theirs, os.Stdin)
	if err != nil {
		ours.close()
		return nil, nil, err
	}
	return ours, func() {
		_ = process.Kill()
		go func() { _, _ = process.Wait() }() // reap our child
	}, nil
}
