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
)

// Log is the target of lines.
type Log struct {
	tag    string
	target string
	sink   *sink // nil: opened for each line
}

// New returns the log that a configuration names: "syslog" or "", "off", or
// the path of a file. Its lines begin with the tag.
func New(tag, target string) Log { return Log{tag: tag, target: target} }

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
func Inherit(tag string, fd int) Log { return Log{tag: tag, sink: inherit(fd)} }

// Unheard writes the lines that were kept, and tells whether nobody listens. If so,
// [Reconnect] and another call of Unheard write them.
func (l Log) Unheard() bool {
	if l.sink == nil {
		return false
	}
	const tries = 50 // a syslog daemon takes ten lines at a time (net.unix.max_dgram_qlen)
	for range tries {
		l.sink.mu.Lock()
		err := l.sink.flush()
		l.sink.mu.Unlock()
		if err == nil || isUnheard(err) {
			return err != nil
		}
		time.Sleep(time.Millisecond)
	}
	return false
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
	s.write(time.Now(), l.tag, os.Getpid(), oneLine(fmt.Sprintf(format, args...)))
}

// oneLine keeps a text from forging a second line.
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
