package calllog

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// sink is an open log.
type sink struct {
	fd     int
	syslog bool // otherwise a file
	mu     sync.Mutex
	kept   [][]byte // guarded by mu: lines not yet taken, the oldest first
}

// mostKept is how many lines are kept for a syslog daemon that is not there.
const mostKept = 32

// devLog is where syslog daemons listen (man 3 syslog).
const devLog = "/dev/log"

var errOff = errors.New("the log is off")

func open(target string) (*sink, error) {
	switch target {
	case "off":
		return nil, errOff
	case "", "syslog":
		return openSyslog(devLog)
	}
	return openFile(target)
}

// openSyslog makes a socket that is connected to the syslog daemon, or not connected if there
// is none: see Reconnect.
func openSyslog(path string) (*sink, error) {
	const kind = unix.SOCK_DGRAM | unix.SOCK_CLOEXEC | unix.SOCK_NONBLOCK
	fd, err := unix.Socket(unix.AF_UNIX, kind, 0)
	if err != nil {
		return nil, err
	}
	_ = connect(fd, path)
	return &sink{fd: fd, syslog: true}, nil
}

func connect(fd int, path string) error {
	return os.NewSyscallError("connect to "+path, unix.Connect(fd, &unix.SockaddrUnix{Name: path}))
}

// Reconnect connects a socket of Open once more, for all processes that have it: a syslog daemon
// that was restarted listens on another one than the one that it was connected to.
func Reconnect(fd int) error {
	kind, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE)
	if err == nil && kind != unix.SOCK_DGRAM {
		err = unix.EPROTOTYPE
	}
	if err != nil {
		return os.NewSyscallError("reconnect the log", err)
	}
	return connect(fd, devLog)
}

// openFile opens a regular file: a fifo or a device could make us wait.
func openFile(path string) (*sink, error) {
	const mode = unix.O_WRONLY | unix.O_APPEND | unix.O_CREAT | unix.O_CLOEXEC | unix.O_NOFOLLOW | unix.O_NONBLOCK
	fd, err := unix.Open(path, mode, 0o600)
	if err != nil {
		return nil, err
	}
	if typeOf(fd) != unix.S_IFREG {
		unix.Close(fd)
		return nil, unix.EINVAL
	}
	return &sink{fd: fd}, nil
}

// inherit tells a descriptor's kind of sink from its type.
func inherit(fd int) *sink {
	switch typeOf(fd) {
	case unix.S_IFSOCK:
		return &sink{fd: fd, syslog: true}
	case unix.S_IFREG:
		return &sink{fd: fd}
	}
	return &sink{fd: -1} // off: every write fails
}

// typeOf returns the type of an open file (man 7 inode), 0 if there is none.
func typeOf(fd int) uint32 {
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return 0
	}
	return stat.Mode & unix.S_IFMT
}

// write writes a line, unless that would block. The node's time zone is not asked
// for: the daemon may not read it.
func (s *sink) write(at time.Time, tag string, pid int, text string) {
	line := fmt.Appendf(nil, "%s[%d]: %s", tag, pid, text)
	if !s.syslog {
		_, _ = unix.Write(s.fd, fmt.Appendf(nil, "%s %s\n", at.UTC().Format(time.RFC3339), line))
		return
	}
	// daemon.info. The syslog daemon adds the time (RFC 3164, 4.3.2).
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kept = append(s.kept, append([]byte("<30>"), line...))
	_ = s.flush()
	if len(s.kept) > mostKept {
		s.kept = s.kept[len(s.kept)-mostKept:]
	}
}

// flush writes the lines that were kept, until a write fails: no syslog daemon listens, or it
// is slow. s.mu is held.
func (s *sink) flush() error {
	for len(s.kept) > 0 {
		// Not sendto, which the daemon may not call, because it takes an address.
		switch _, err := unix.Write(s.fd, s.kept[0]); {
		case errors.Is(err, unix.EAGAIN), isUnheard(err):
			return err
		}
		s.kept = s.kept[1:]
	}
	s.kept = nil
	return nil
}

// isUnheard tells whether nobody listens at the other end: the first error after its end,
// and those after the first (net/unix/af_unix.c, unix_dgram_sendmsg).
func isUnheard(err error) bool {
	return errors.Is(err, unix.ECONNREFUSED) || errors.Is(err, unix.ECONNRESET) || errors.Is(err, unix.EPIPE) || errors.Is(err, unix.ENOTCONN)
}

func (s *sink) close() { unix.Close(s.fd) }
