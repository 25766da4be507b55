package command

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/survive"
)

// watch reads a file again and again: a small workload that shows every failure that a reader of
// the volume meets. It prints each result, or on a terminal, a line that tells of all of them.
func (p Program) watch(set *pflag.FlagSet) func([]string) error {
	interval := set.Duration("interval", time.Second, "`TIME` between two reads")
	keepOpen := set.Bool("keep-open", false, "open the file once, and read it again from its beginning")
	exitOnError := set.Bool("exit-on-error", false, "exit with status 1 at the first error")
	count := set.Int("count", 0, "end after `N` reads; 0: never")
	return func(args []string) error {
		return p.watchFile(args[0], *interval, *keepOpen, *exitOnError, *count)
	}
}

func (p Program) watchFile(path string, interval time.Duration, keepOpen, exitOnError bool, count int) error {
	begins := func(time.Time) {}
	shows := func(_ []byte, _ error, _ time.Duration, text string) { fmt.Println(text) }
	if isTerminal(unix.Stdout) {
		l := p.newLive(path)
		defer l.end()
		begins, shows = l.begins, l.shows
	}
	var file *os.File // nil: not open
	for n := 1; ; n++ {
		started := time.Now()
		begins(started)
		var content []byte
		var err error
		if file == nil {
			file, err = os.Open(path)
		}
		if err == nil {
			content, err = io.ReadAll(io.NewSectionReader(file, 0, 1<<20))
		}
		if !keepOpen {
			file.Close()
			file = nil
		}
		result := fmt.Sprintf("%q", content)
		if err != nil {
			result = "error: " + err.Error()
		}
		took := time.Since(started)
		shows(content, err, took, fmt.Sprintf("%s %s in %v", started.Format("2006-01-02T15:04:05.000Z07:00"), result, took.Round(time.Microsecond)))
		if err != nil && exitOnError {
			return fmt.Errorf("read %d failed", n)
		}
		if n == count {
			return nil
		}
		time.Sleep(interval)
	}
}

// live is the line that a person sees of a watch. Errors stay above it.
type live struct {
	node   *survive.Node // that serves the file; nil: not known, as in a container
	ended  chan struct{}
	drawer sync.WaitGroup

	lock    sync.Mutex // guards all below, and the terminal
	since   time.Time  // when the read began that goes on; zero: none does
	content []byte     // of the last read that succeeded
	failed  int
	longest time.Duration // that a read took
	rate    rate
	serves  string // who answers
	changes changes
}

// tick is how often the line is drawn anew, and how often the daemon is asked who serves.
const tick = 100 * time.Millisecond

func (p Program) newLive(path string) *live {
	l := &live{ended: make(chan struct{})}
	if name, ok := p.NameOf(filepath.Dir(path)); ok && p.CheckName(name) == nil {
		if i, err := p.installation(name.String()); err == nil {
			l.node = &i.Node
		}
	}
	l.rate.begin(time.Now())
	// Neither a read that waits nor a daemon that is silent keeps the line from being drawn.
	l.drawer.Go(func() { l.each(l.draw) })
	if l.node != nil {
		go l.each(l.ask)
	}
	return l
}

// each calls a function at each tick until the end.
func (l *live) each(f func()) {
	for {
		f()
		select {
		case <-time.After(tick):
		case <-l.ended:
			return
		}
	}
}

// end leaves the line as it is at the end.
func (l *live) end() {
	close(l.ended)
	l.drawer.Wait()
	l.draw()
	fmt.Println()
}

// begins says that a read begins.
func (l *live) begins(at time.Time) {
	l.lock.Lock()
	defer l.lock.Unlock()
	l.since = at
}

// shows says how it ended; text is a line about it.
func (l *live) shows(content []byte, err error, took time.Duration, text string) {
	l.lock.Lock()
	defer l.lock.Unlock()
	l.since = time.Time{}
	l.longest = max(l.longest, took)
	l.rate.count++
	if err == nil {
		l.content = content
		return
	}
	l.failed++
	fmt.Printf("\r%-*s\n", columns()-1, line(text))
}

// ask asks who serves. Only root may.
func (l *live) ask() {
	status, err := l.node.Processes()
	l.lock.Lock()
	defer l.lock.Unlock()
	switch {
	case err != nil || status.Mount == survive.MountAbsent: // as in a container
		l.serves = ""
	case status.Mount == survive.MountDead:
		l.serves = "no process answers"
	case status.Active != nil && status.Active.PID != 0:
		l.serves = fmt.Sprintf("process %d answers", status.Active.PID)
	}
	if err == nil && status.Takeovers != nil {
		l.changes.see(status.Takeovers.All)
	}
}

// draw draws the line in the place of the one before.
func (l *live) draw() {
	l.lock.Lock()
	defer l.lock.Unlock()
	width := columns() - 1 // in the last column, some terminals begin a new line
	now := time.Now()
	longest := l.longest
	var waits string
	if !l.since.IsZero() {
		waited := now.Sub(l.since)
		longest = max(longest, waited)
		if waited >= time.Second {
			waits = fmt.Sprintf("a read waits for %v", waited.Truncate(100*time.Millisecond))
		}
	}
	parts := []string{l.rate.at(now), cmp.Or(waits, l.serves)}
	if l.changes.known {
		parts = append(parts, plural(l.changes.seen, "take-over"))
	}
	parts = append(parts, "longest stall "+brief(longest), plural(l.failed, "error"))
	parts = slices.DeleteFunc(parts, func(part string) bool { return part == "" })
	// What there is no room for is the end of the content.
	text := fmt.Sprintf("%s: %.200q", strings.Join(parts, ", "), l.content)
	fmt.Printf("\r%-*.*s", width, width, line(text))
}

// brief is a duration with as many digits as somebody reads while it changes.
func brief(d time.Duration) string {
	if d < time.Millisecond {
		return "below 1ms"
	} else if d < time.Second {
		return d.Round(time.Millisecond).String()
	}
	return d.Round(100 * time.Millisecond).String()
}

func plural(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}

// rate is how many reads there were in the last second that is over.
type rate struct {
	count int
	begun time.Time
	text  string
}

func (r *rate) begin(now time.Time) { r.count, r.begun = 0, now }

func (r *rate) at(now time.Time) string {
	if passed := now.Sub(r.begun); passed >= time.Second {
		r.text = fmt.Sprintf("%.0f reads/s", float64(r.count)/passed.Seconds())
		r.begin(now)
	}
	return r.text
}

// changes counts the take-overs since the watch began, of daemons each of which counts its own.
type changes struct {
	seen, last int
	known      bool
}

// see is told what the daemon has counted.
func (c *changes) see(counted int) {
	switch {
	case !c.known:
		c.known = true
	case counted < c.last: // another one, after a loss
		c.seen += counted
	default:
		c.seen += counted - c.last
	}
	c.last = counted
}

// columns is the width of the terminal.
func columns() int {
	size, err := unix.IoctlGetWinsize(unix.Stdout, unix.TIOCGWINSZ)
	if err != nil || size.Col < 2 {
		return 80
	}
	return int(size.Col)
}
