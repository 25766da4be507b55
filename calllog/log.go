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

// Log is where lines go. The zero value is syslog.
type Log struct {
	target string
	sink   *sink // nil: opened for each line
}

// New returns the log that a configuration names: "syslog" or "", "off", or
// the path of a file.
func New(target string) Log { return Log{target: target} }

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
func Inherit(fd int) Log { return Log{sink: inherit(fd)} }

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
	s.write(time.Now(), os.Getpid(), oneLine(fmt.Sprintf(format, args...)))
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
