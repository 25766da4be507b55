package calllog

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// sink is an open log.
type sink struct {
	fd     int
	syslog string // the path that datagrams go to, "": a file
}

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

// openSyslog makes a socket that is not connected: every datagram finds the syslog
// daemon anew, also one that was restarted.
func openSyslog(path string) (*sink, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	return &sink{fd, path}, err
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

// inherit tells from its type what a descriptor is.
func inherit(fd int) *sink {
	switch typeOf(fd) {
	case unix.S_IFSOCK:
		return &sink{fd, devLog}
	case unix.S_IFREG:
		return &sink{fd: fd}
	}
	return &sink{fd: -1} // off: whatever is written there fails
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
func (s *sink) write(at time.Time, pid int, text string) {
	line := fmt.Appendf(nil, "pod-info-fuse[%d]: %s", pid, text)
	if s.syslog == "" {
		_, _ = unix.Write(s.fd, fmt.Appendf(nil, "%s %s\n", at.UTC().Format(time.RFC3339), line))
		return
	}
	// daemon.info. The syslog daemon adds the time (RFC 3164, 4.3.2).
	datagram := append([]byte("<30>"), line...)
	_ = unix.Sendto(s.fd, datagram, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, &unix.SockaddrUnix{Name: s.syslog})
}

func (s *sink) close() { unix.Close(s.fd) }
