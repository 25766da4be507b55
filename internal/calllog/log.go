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
	"strings"
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
}

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
// is none.
func openSyslog(path string) (*sink, error) {
	const kind = unix.SOCK_DGRAM | unix.SOCK_CLOEXEC | unix.SOCK_NONBLOCK
	fd, err := unix.Socket(unix.AF_UNIX, kind, 0)
	if err != nil {
		return nil, err
	}
	_ = unix.Connect(fd, &unix.SockaddrUnix{Name: path})
	return &sink{fd: fd, syslog: true}, nil
}

// typeOf returns the type of an open file (man 7 inode), 0 if there is none.
func typeOf(fd int) uint32 {
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return 0
	}
	return stat.Mode & unix.S_IFMT
}

// write writes a line, unless that would block: it is lost then, as where no syslog daemon listens.
func (s *sink) write(line string) {
	if s.syslog {
		line = "<30>" + line // daemon.info. The syslog daemon adds the time (RFC 3164, 4.3.2).
	} else {
		// UTC: the daemon may not read the node's time zone.
		line = time.Now().UTC().Format(time.RFC3339) + " " + line + "\n"
	}
	// Not sendto, which the daemon may not call, because it takes an address.
	_, _ = unix.Write(s.fd, []byte(line))
}

func (s *sink) close() { unix.Close(s.fd) }
