// Package calllog writes the driver's log: lines of text, to syslog or to a
// file on a local disk. A log that cannot be written is silent: no call-out fails
// because of its log.
package calllog

import (
	"fmt"
	"os"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// Log is where lines go. The zero value is syslog.
type Log struct {
	target string
}

// New returns the log that a configuration names: "syslog" or "", "off", or
// the path of a file.
func New(target string) Log { return Log{target} }

// maxLine keeps a line within what syslog daemons accept, in bytes.
const maxLine = 1000

// Line writes one line.
func (l Log) Line(format string, args ...any) {
	text := oneLine(fmt.Sprintf(format, args...))
	switch l.target {
	case "off":
	case "", "syslog":
		// daemon.info, and the time as RFC 3164 wants it for a local socket.
		sendSyslog("/dev/log", fmt.Sprintf("<30>%s pod-info-fuse[%d]: %s", time.Now().Format(time.Stamp), os.Getpid(), text))
	default:
		appendFile(l.target, fmt.Sprintf("%s pod-info-fuse[%d]: %s\n", time.Now().Format(time.RFC3339), os.Getpid(), text))
	}
}

// oneLine makes sure that nobody can forge a second line.
func oneLine(text string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == utf8.RuneError {
			return '?'
		}
		return r
	}, text)
	if len(text) > maxLine {
		text = strings.ToValidUTF8(text[:maxLine], "") + "..."
	}
	return text
}

// sendSyslog sends a datagram to the syslog daemon, unless that would block.
func sendSyslog(path, message string) {
	socket, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return
	}
	defer unix.Close(socket)
	_ = unix.Sendto(socket, []byte(message), unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, &unix.SockaddrUnix{Name: path})
}

// appendFile writes to a regular file: a fifo or a device could make us wait.
func appendFile(path, line string) {
	const mode = unix.O_WRONLY | unix.O_APPEND | unix.O_CREAT | unix.O_CLOEXEC | unix.O_NOFOLLOW | unix.O_NONBLOCK
	fd, err := unix.Open(path, mode, 0o600)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil || stat.Mode&unix.S_IFMT != unix.S_IFREG {
		return
	}
	_, _ = unix.Write(fd, []byte(line))
}
