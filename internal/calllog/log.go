// Package calllog writes the driver's log: lines of text, to syslog or to a
// file on a local disk. A log that cannot be written is silent: no call-out fails
// because of its log.
package calllog

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// Log is the target of lines.
type Log struct {
	tag    string
	target string
	sink   *sink // nil: opened for each line
}

// New returns the log that a configuration names: "syslog" or "", "off", or
// the path of a file. Its lines begin with the tag.
func New(tag, target string) Log { return Log{tag: tag, target: cmp.Or(target, usual)} }

// usual is where lines go by default. A test has the linker replace it.
var usual = "syslog"

// Open returns a descriptor of the log, for a process that may not open it
// itself; see [Inherit]. A log that cannot be opened becomes one that is off.
func (l Log) Open() (*os.File, error) {
	s, err := open(l.target)
	if err != nil {
		return os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	}
	return os.NewFile(uintptr(s.fd), "log"), nil
}

// Inherit returns the log behind a descriptor of Open, which it needs for as long
// as it is used.
func Inherit(tag string, fd int) Log {
	s := &sink{fd: fd}
	switch typeOf(fd) {
	case unix.S_IFSOCK:
		s.syslog = true
	case unix.S_IFREG:
	default:
		s.fd = -1 // off: every write fails
	}
	return Log{tag: tag, sink: s}
}

// IsFile tells whether an inherited log is a file.
func (l Log) IsFile() bool { return l.sink != nil && l.sink.fd >= 0 && !l.sink.syslog }

// Unheard writes the lines that were kept, and tells whether nobody listens. If so,
// [Reconnect] and another call of Unheard write them: as many as the syslog daemon takes at a time
// (net.unix.max_dgram_qlen).
func (l Log) Unheard() bool {
	if l.sink == nil {
		return false
	}
	l.sink.mu.Lock()
	defer l.sink.mu.Unlock()
	return isUnheard(l.sink.flush())
}

// maxLine keeps a line within what syslog daemons accept, in bytes.
const maxLine = 1000

// Line writes one line.
func (l Log) Line(format string, args ...any) {
	s := l.sink
	if s == nil {
		var err error
		if s, err = open(l.target); err != nil {
			return
		}
		defer s.close()
	}
	s.write(fmt.Sprintf("%s[%d]: %s", l.tag, os.Getpid(), oneLine(fmt.Sprintf(format, args...))))
}

// Format is how the lines of a container's log are written. It is a flag's value (pflag.Value).
type Format string

// The formats. Text begins each line of a message with the time; those after the first one are
// indented, so that none of them can pass for another message. JSON is an object for each message,
// with "time" and "msg".
const (
	Text Format = "text"
	JSON Format = "json"
)

// Set takes the format that a flag names.
func (f *Format) Set(name string) error {
	switch *f = Format(name); *f {
	case Text, JSON:
		return nil
	}
	return fmt.Errorf("there are %q and %q", Text, JSON)
}

func (f *Format) String() string { return string(*f) }

// Type names the value in a command's help.
func (*Format) Type() string { return "FORMAT" }

// Container writes a message to where a container logs.
func (f Format) Container(to io.Writer, text string) {
	now := time.Now().UTC()
	if f == JSON {
		data, _ := json.Marshal(struct { // which cannot fail
			Time time.Time `json:"time"`
			Msg  string    `json:"msg"`
		}{now, strings.ToValidUTF8(text, "?")})
		fmt.Fprintf(to, "%s\n", data)
		return
	}
	indent := " "
	for line := range strings.Lines(text) {
		fmt.Fprintf(to, "%s%s%s\n", now.Format(time.RFC3339), indent, oneLine(strings.TrimSpace(line)))
		indent = "   "
	}
}

// oneLine keeps a text from forging a second line. The lines of an error that joins others become
// parts of one.
func oneLine(text string) string {
	text = strings.ReplaceAll(text, "\n", "; ")
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

// sink is an open log.
type sink struct {
	fd     int
	syslog bool // otherwise a file
	mu     sync.Mutex
	kept   []string // guarded by mu: lines not yet taken, the oldest first
}

// mostKept is how many lines are kept for a syslog daemon that is not there.
const mostKept = 32

// devLog is where syslog daemons listen (man 3 syslog).
const devLog = "/dev/log"

func open(target string) (*sink, error) {
	switch target {
	case "off":
		return nil, errors.New("the log is off")
	case "syslog":
		return openSyslog(devLog)
	}
	// Not a fifo or a device, which could make us wait.
	const mode = unix.O_WRONLY | unix.O_APPEND | unix.O_CREAT | unix.O_CLOEXEC | unix.O_NOFOLLOW | unix.O_NONBLOCK
	fd, err := unix.Open(target, mode, 0o600)
	if err != nil {
		return nil, err
	}
	if typeOf(fd) != unix.S_IFREG {
		unix.Close(fd)
		return nil, unix.EINVAL
	}
	return &sink{fd: fd}, nil
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
func (s *sink) write(line string) {
	if !s.syslog {
		_, _ = unix.Write(s.fd, []byte(time.Now().UTC().Format(time.RFC3339)+" "+line+"\n"))
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kept = append(s.kept, "<30>"+line) // daemon.info. The syslog daemon adds the time (RFC 3164, 4.3.2).
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
		if _, err := unix.Write(s.fd, []byte(s.kept[0])); err == unix.EAGAIN || isUnheard(err) {
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
	return slices.Contains([]error{unix.ECONNREFUSED, unix.ECONNRESET, unix.EPIPE, unix.ENOTCONN}, err)
}

func (s *sink) close() { unix.Close(s.fd) }
