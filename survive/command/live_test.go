package command_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/internal/testnode"
)

// screen is what a person sees of a program: lines that stay, and the one that is drawn again and
// again.
type screen struct {
	t     *testing.T
	lock  sync.Mutex
	stays []string
	drawn string
	wide  int // the longest line
}

// follow reads what a terminal shows, until its end.
func follow(t *testing.T, shown *os.File) *screen {
	s := &screen{t: t}
	go func() {
		text := bufio.NewReader(shown)
		var now, over string
		for {
			b, err := text.ReadByte()
			if err != nil { // EIO: nobody has the terminal any more
				return
			}
			s.lock.Lock()
			switch b {
			case '\r': // a new line of the terminal is one, and a line feed
				if now != "" {
					s.wide, over, now = max(s.wide, len(now)), strings.TrimRight(now, " "), ""
				}
			case '\n':
				s.stays = append(s.stays, over)
				over = ""
			default:
				if over != "" {
					s.drawn, over = over, ""
				}
				now += string(b)
			}
			s.lock.Unlock()
		}
	}()
	return s
}

// shows waits until the line has a text.
func (s *screen) shows(text string) {
	s.t.Helper()
	testnode.Eventually(s.t, "the line shows "+text, func() bool { return strings.Contains(s.line(), text) })
}

func (s *screen) line() string {
	s.lock.Lock()
	defer s.lock.Unlock()
	return s.drawn
}

// watchOn starts a watch of a file on a terminal with so many columns.
func watchOn(t *testing.T, d testnode.Driver, columns uint16, args ...string) (*screen, *os.Process) {
	t.Helper()
	return showOn(t, columns, d.Command(append([]string{"watch", "--interval", "5ms"}, args...)...))
}

// showOn starts a command on such a terminal.
func showOn(t *testing.T, columns uint16, command *exec.Cmd) (*screen, *os.Process) {
	t.Helper()
	tty, shown := terminal(t)
	if err := unix.IoctlSetWinsize(int(tty.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 25, Col: columns}); err != nil {
		t.Fatal(err)
	}
	command.Stdout, command.Stderr = tty, tty
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	tty.Close()
	t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
	})
	return follow(t, shown), command.Process
}

// A person who watches sees which process answers, that another one takes over, and for how long
// a read waited.
func TestALiveLine(t *testing.T) {
	d := testnode.Install(t)
	path := filepath.Join(d.Mount(), "pod.uid")
	active, standby := d.Pair()
	s, _ := watchOn(t, d, 100, path)
	s.shows(fmt.Sprintf("process %d answers, 0 take-overs, longest stall ", active))
	s.shows(" reads/s, ")
	s.shows(`, 0 errors: "` + testnode.PodUID[:8])

	testnode.Kill(t, active)
	s.shows(fmt.Sprintf("process %d answers, 1 take-over, ", standby))

	active, standby = d.Pair()
	testnode.Suspend(t, standby)
	testnode.Suspend(t, active)
	s.shows("a read waits for 1")
	for _, pid := range []int{active, standby} {
		if err := unix.Kill(pid, unix.SIGCONT); err != nil {
			t.Fatal(err)
		}
	}
	s.shows("answers, 1 take-over")
	_, after, _ := strings.Cut(s.line(), "longest stall ")
	stall, _, _ := strings.Cut(after, ",")
	if took, err := time.ParseDuration(stall); err != nil || took < time.Second {
		t.Errorf("a read that was seen to wait for a second: longest stall %q, %v", stall, err)
	}
	if !strings.Contains(s.line(), ", 0 errors") {
		t.Errorf("the line has errors: %q", s.line())
	}

	// A loss: each error stays, and the line goes on.
	d.KillPair()
	s.shows("no process answers, 1 take-over")
	d.Must("init")
	active, _ = d.Pair()
	s.shows(fmt.Sprintf("process %d answers, 1 take-over, ", active))
	s.lock.Lock()
	defer s.lock.Unlock()
	if len(s.stays) == 0 || !strings.Contains(s.stays[0], "error: ") || strings.Contains(s.stays[0], "reads/s") {
		t.Errorf("%d lines stay, with %.200q", len(s.stays), strings.Join(s.stays, "\n"))
	}
}

// Nothing of the line gets to the next one, which could not be drawn again; and the last stays.
func TestALiveLineIsOneLine(t *testing.T) {
	d := testnode.Install(t)
	path := filepath.Join(d.Mount(), "pod.nodename")
	s, process := watchOn(t, d, 40, "--count", "300", path)
	testnode.Eventually(t, "it has ended", func() bool { return !testnode.Alive(process.Pid) })
	testnode.Eventually(t, "the last line is there", func() bool {
		s.lock.Lock()
		defer s.lock.Unlock()
		return len(s.stays) > 0
	})
	s.lock.Lock()
	defer s.lock.Unlock()
	if len(s.stays) != 1 || !strings.Contains(s.stays[0], "reads/s, process ") || s.wide != 39 {
		t.Errorf("%d lines stay, with %.200q; the widest has %d characters", len(s.stays), s.stays[0], s.wide)
	}
}

// A file that is not of this driver is watched as well.
func TestALiveLineOfAnotherFile(t *testing.T) {
	d := testnode.Install(t)
	path := filepath.Join(t.TempDir(), "plain")
	if err := os.WriteFile(path, []byte("a\x1b[2J\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s, _ := watchOn(t, d, 100, path)
	s.shows(` reads/s, longest stall `)
	s.shows(`, 0 errors: "a\x1b[2J\n"`)
}

// In a container, nobody can tell who serves, and the line claims nothing of it.
func TestALiveLineInAContainer(t *testing.T) {
	d := testnode.Install(t)
	path := filepath.Join(d.Mount(), "pod.nodename")
	d.Pair()
	watch := d.Command("watch", "--interval", "5ms", path)
	script := `mount -t tmpfs tmpfs /run && exec "$0" "$@"`
	s, _ := showOn(t, 100, exec.Command("unshare", append([]string{"--mount", "sh", "-c", script, watch.Path}, watch.Args[1:]...)...))
	s.shows(" reads/s, longest stall ")
}

func TestWatch(t *testing.T) {
	d := testnode.Install(t)
	dir := d.Mount()
	path := filepath.Join(dir, "pod.uid")
	for _, args := range [][]string{{"--keep-open"}, nil} {
		output, err := d.Command(append([]string{"watch", path, "--interval", "1ms", "--count", "3", "--exit-on-error"}, args...)...).CombinedOutput()
		if lines := strings.Count(string(output), testnode.PodUID+`\n" in `); err != nil || lines != 3 {
			t.Errorf("watch %q: %v:\n%s", args, err, output)
		}
	}
	output, err := d.Command("watch", dir+"/nothing", "--count", "5", "--interval", "1ms", "--exit-on-error").CombinedOutput()
	if err == nil || strings.Count(string(output), "error: ") != 1 {
		t.Errorf("watch of nothing: %v:\n%s", err, output)
	}
	if output, err := d.Command("watch", "--driver", d.Name, path).CombinedOutput(); err == nil || !strings.Contains(string(output), "unknown flag: --driver") {
		t.Errorf("watch of a driver: %v: %s", err, output)
	}
	if output, err := d.Command("watch", "--help").CombinedOutput(); err != nil || !strings.Contains(string(output), "pod-info-fuse watch [FLAG...] FILE\n") {
		t.Errorf("watch --help: %v: %s", err, output)
	}
	output, err = d.Command("watch", dir+"/nothing", "--count", "5", "--interval", "1ms").CombinedOutput()
	if err != nil || strings.Count(string(output), "error: ") != 5 {
		t.Errorf("watch that goes on: %v:\n%s", err, output)
	}
}
