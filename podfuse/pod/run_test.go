package pod_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/podfuse/wire"
)

// servedBy waits until the volume is served by another program than one, and returns its PID.
func (d *fakeDriver) servedBy(at string, not int) (pid int) {
	d.t.Helper()
	eventually(d.t, "served at "+at, func() bool {
		text, err := os.ReadFile(filepath.Join(at, "pid"))
		if err != nil {
			return false
		}
		pid, err = strconv.Atoi(strings.TrimSpace(string(text)))
		return err == nil && pid != not
	})
	return pid
}

// devices returns the descriptors of /dev/fuse that a process has, with their flags.
func devices(t *testing.T, pid int) map[int]int64 {
	t.Helper()
	found := map[int]int64{}
	links, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	must(t, err)
	for _, link := range links {
		if target, _ := os.Readlink(link); target == "/dev/fuse" {
			info, err := os.ReadFile(fmt.Sprintf("/proc/%d/fdinfo/%s", pid, filepath.Base(link)))
			if os.IsNotExist(err) {
				continue // it was closed since
			}
			must(t, err)
			_, text, _ := strings.Cut(string(info), "flags:")
			fd, err := strconv.Atoi(filepath.Base(link))
			must(t, err)
			found[fd], err = strconv.ParseInt(strings.Fields(text)[0], 8, 64)
			must(t, err)
		}
	}
	return found
}

func TestRunGivesTheProgramItsDescriptor(t *testing.T) {
	d := newNode(t).start()
	p := d.launch("run", "-o", "ro,subtype=x", "--", self, "serve", "{}")
	pid := d.servedBy(d.at, 0)
	if pid == p.cmd.Process.Pid {
		t.Error("the launcher serves")
	}
	if got := devices(t, pid); len(got) != 1 || got[3]&(unix.O_ACCMODE|unix.O_NONBLOCK) != unix.O_RDWR {
		t.Errorf("the program has %#o", got)
	}
	eventually(t, "the launcher has no descriptor", func() bool { return len(devices(t, p.cmd.Process.Pid)) == 0 })
	want := wire.Request{Format: wire.Format, Kind: wire.Serve, Server: d.id, Options: wire.Options{ReadOnly: true, Subtype: "x"}}
	if got := d.asked(wire.Serve); len(got) != 1 || got[0] != want {
		t.Errorf("the driver was asked %+v, want %+v", got, want)
	}
	p.signal(unix.SIGTERM)
	if status := p.status(); status != 0 {
		t.Errorf("the launcher has ended with %d", status)
	}
}

func TestRunReturnsTheProgramsStatus(t *testing.T) {
	d := newNode(t).start()
	file := filepath.Join(filepath.Dir(d.dir), "no-program")
	must(t, os.WriteFile(file, []byte("?"), 0o644))
	for _, test := range []struct {
		args   []string
		status int
		prints string
	}{
		{[]string{"--", "/bin/true"}, 0, ""},
		{[]string{"--", "sh", "-c", "exit 7"}, 7, ""},
		{[]string{"sh", "-c", "exit 8"}, 8, ""},
		{[]string{"--", "sh", "-c", "kill -USR1 $$"}, 128 + 10, ""},
		{[]string{"--", "sh", "-c", "kill -9 $$"}, 128 + 9, ""},
		{[]string{"--", "sh", "-c", "echo $0 $1", "{}", "-o{}"}, 0, "/dev/fd/3 -o/dev/fd/3\n"},
		{[]string{"--", "no-such-program"}, 127, "has a program no-such-program"},
		{[]string{"--", "/no/such/program"}, 127, "start /no/such/program"},
		{[]string{"--", file}, 126, "permission denied"},
		{[]string{"--restart", "--", file}, 126, "permission denied"},
		{[]string{"--"}, 2, "run needs PROGRAM"},
		{nil, 2, "pod-fuse: run needs PROGRAM; see pod-fuse run --help\n"},
		{[]string{"-o", "big_writes", "--", "true"}, 2, "run: unknown option 'big_writes'"},
		{[]string{"-o", "suid", "--", "true"}, 0, "unsafe option suid ignored"},
		{[]string{"--again", "--", "true"}, 2, "unknown flag: --again"},
		{[]string{"--help"}, 0, "Usage:\n  pod-fuse run [flags] -- PROGRAM"},
	} {
		p := d.launch(append([]string{"run"}, test.args...)...)
		if status := p.status(); status != test.status {
			t.Errorf("%q: status %d, want %d", test.args, status, test.status)
		}
		if got := p.text(); !strings.Contains(got, test.prints) || test.prints == "" && got != "" {
			t.Errorf("%q printed %q, want %q", test.args, got, test.prints)
		}
	}
}

func TestRunForwardsSignals(t *testing.T) {
	d := newNode(t).start()
	p := d.launch("run", "--", self, "signals")
	p.prints("ready")
	for _, s := range []unix.Signal{unix.SIGHUP, unix.SIGINT, unix.SIGUSR1, unix.SIGUSR2, unix.SIGWINCH, unix.Signal(40)} {
		p.signal(s)
		p.prints(fmt.Sprintf("got %v\n", s))
	}
	p.signal(unix.SIGTERM)
	if status := p.status(); status != 5 {
		t.Errorf("status %d, want the program's, 5", status)
	}
}

func TestRestartStartsADeadProgramAgain(t *testing.T) {
	t.Parallel()
	for _, way := range []string{"descriptor", "fusermount"} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			d := newNode(t).start()
			at, argument := d.at, "{}"
			if way == "fusermount" {
				at, argument = d.own(), d.own()
			}
			p := d.launch("run", "--restart", "--", self, "serve", argument)
			pid := d.servedBy(at, 0)
			for n := 2; n <= 3; n++ {
				if n == 3 { // the second one that dies young is not started at once
					time.Sleep(1100 * time.Millisecond)
				}
				// It is served before it has said so.
				eventually(t, "it says so", func() bool { return strings.Count(p.text(), "serving") == n-1 })
				killed := time.Now()
				must(t, unix.Kill(pid, unix.SIGKILL))
				pid = d.servedBy(at, pid)
				t.Logf("served again after %v", time.Since(killed))
				if got := len(d.asked(wire.Serve)); got != n {
					t.Errorf("%d requests after %d starts", got, n)
				}
			}
			if got := strings.Count(p.text(), "was ended by signal 9 (killed); starting it again at once\n"); got != 2 {
				t.Errorf("told %d restarts, want 2", got)
			}
			eventually(t, "has started three times", func() bool { return strings.Count(p.text(), "serving") == 3 })
			p.signal(unix.SIGTERM)
			if status := p.status(); status != 0 {
				t.Errorf("status %d after SIGTERM, want the program's, 0", status)
			}
			if got := len(d.asked(wire.Serve)); got != 3 {
				t.Errorf("%d requests, one after SIGTERM", got)
			}
		})
	}
}

// What a program leaves behind may hold its descriptor: the driver would not see that it is dead.
func TestRestartKillsWhatAProgramHasLeft(t *testing.T) {
	d := newNode(t).start()
	p := d.launch("run", "--restart", "--", "sh", "-c", "sleep 1000 & echo left $!; wait", "{}")
	p.prints("left")
	var left int
	_, err := fmt.Sscanf(p.text(), "left %d", &left)
	must(t, err)
	parent, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", left))
	must(t, err)
	var pid int
	var name, state string
	_, err = fmt.Sscan(string(parent), &left, &name, &state, &pid)
	must(t, err)
	if got := devices(t, left); len(got) != 1 {
		t.Fatalf("what it has left has %v: this test shows nothing", got)
	}
	must(t, unix.Kill(pid, unix.SIGKILL))
	eventually(t, "killed", func() bool { return len(devices(t, left)) == 0 })
}

func TestRestartBacksOff(t *testing.T) {
	t.Parallel()
	d := newNode(t).start()
	began := time.Now()
	p := d.launch("run", "--restart", "--", "sh", "-c", "exit 143", "{}")
	p.prints("has ended with status 143; starting it again in 800ms")
	// At once, at once, 100 ms, 200 ms, 400 ms, and now 800 ms. On a slow machine one may have
	// lived for so long that it began anew.
	if took := time.Since(began); took < 700*time.Millisecond {
		t.Errorf("it was started again and again for %v", took)
	}
	if starts := len(d.asked(wire.Serve)); starts > 1+strings.Count(p.text(), "starting it again") {
		t.Errorf("it was started %d times: %s", starts, p.text())
	}
	p.signal(unix.SIGTERM)
	if status := p.status(); status != 128+15 { // also if it just was started
		t.Errorf("status %d after SIGTERM between two starts", status)
	}
}

func TestRunAsPID1ReapsOrphans(t *testing.T) {
	d := newNode(t).start()
	for _, args := range [][]string{{"run", "--"}, {"run", "--restart", "--"}} {
		p := d.contain(container{UID: 1000, Proc: true, Args: append(append([]string{
			filepath.Join(d.serverDir(), "pod-fuse")}, args...), self, "orphans")})
		p.prints(" zombies")
		if got, want := p.text(), "2 processes, 0 zombies\n"; !strings.HasPrefix(got, want) {
			t.Errorf("%q: %q, want %q", args, got, want)
		}
	}
}

func TestRunWaitsForTheDriver(t *testing.T) {
	t.Parallel()
	t.Run("that comes soon, without a word", func(t *testing.T) {
		t.Parallel()
		d := newNode(t)
		began := time.Now()
		p := d.launch("run", "--", "/bin/true", "{}")
		time.Sleep(300 * time.Millisecond)
		d.start()
		if status, took := p.status(), time.Since(began); status != 0 || took < time.Second && p.text() != "" {
			t.Errorf("status %d after %v, printed %q", status, took, p.text())
		}
	})
	t.Run("that comes late, and says so once", func(t *testing.T) {
		t.Parallel()
		d := newNode(t).start()
		d.stop() // as one that is upgraded: the socket is there
		p := d.launch("run", "--", "/bin/true", "{}")
		p.prints("asking again")
		time.Sleep(1500 * time.Millisecond)
		d.start()
		if status := p.status(); status != 0 {
			t.Errorf("status %d", status)
		}
		want := "^pod-fuse: connect to " + d.serverDir() + "/socket: connection refused; asking again for [0-9]+s\n$"
		if got := p.text(); !regexp.MustCompile(want).MatchString(got) {
			t.Errorf("printed %q, want %q", got, want)
		}
	})
	t.Run("that goes away in the middle", func(t *testing.T) {
		t.Parallel()
		d := newNode(t)
		d.answer = func(n int, _ wire.Request) (*wire.Answer, bool) { return nil, n > 3 }
		d.start()
		if status := d.launch("run", "--", "/bin/true", "{}").status(); status != 0 {
			t.Errorf("status %d", status)
		}
		if got := len(d.asked(wire.Serve)); got != 4 {
			t.Errorf("%d requests, want 4", got)
		}
	})
	t.Run("that says that another program serves the volume still", func(t *testing.T) {
		t.Parallel()
		d := newNode(t)
		d.answer = func(n int, _ wire.Request) (*wire.Answer, bool) {
			if n <= 3 {
				return &wire.Answer{Error: isServed, Again: true}, false
			}
			return nil, true
		}
		d.start()
		began := time.Now()
		p := d.launch("run", "--", "/bin/true", "{}")
		if status, took := p.status(), time.Since(began); status != 0 || took < time.Second && p.text() != "" {
			t.Errorf("status %d after %v, printed %q", status, took, p.text())
		}
	})
	t.Run("that says so for too long", func(t *testing.T) { // of unmount, which waits for seconds, and not half a minute
		t.Parallel()
		d := newNode(t)
		d.answer = func(int, wire.Request) (*wire.Answer, bool) { return &wire.Answer{Error: isServed, Again: true}, false }
		p := d.start().run(filepath.Join(d.serverDir(), "fusermount3"), "-u", "/mnt")
		if status, want := p.status(), "fusermount3: failed to unmount /mnt: "+isServed+"\n"; status != 1 || !strings.HasSuffix(p.text(), want) {
			t.Errorf("status %d, printed %q, want %q", status, p.text(), want)
		}
	})
	t.Run("until SIGTERM", func(t *testing.T) {
		t.Parallel()
		d := newNode(t)
		for _, args := range [][]string{{"run", "--"}, {"run", "--restart", "--"}} {
			p := d.launch(append(args, "/bin/true", "{}")...)
			p.prints("no such file or directory; asking again")
			p.signal(unix.SIGTERM)
			if status := p.status(); status != 128+15 {
				t.Errorf("%q: status %d", args, status)
			}
		}
	})
}

func TestRunTellsWhatTheDriverRefuses(t *testing.T) {
	d := newNode(t)
	d.answer = func(int, wire.Request) (*wire.Answer, bool) {
		return &wire.Answer{Error: isGone}, false
	}
	d.start()
	for _, args := range [][]string{{"run", "--"}, {"run", "--restart", "--"}} {
		p := d.launch(append(args, "/bin/true", "{}")...)
		if status := p.status(); status != 1 || p.text() != "pod-fuse: "+isGone+"\n" {
			t.Errorf("%q: status %d, printed %q", args, status, p.text())
		}
	}
}

// A program that serves a volume which is not there goes on, as the volume may come; and its user
// reads why nobody is served, once, however often the program is started.
func TestRunTellsThatThereIsNoVolume(t *testing.T) {
	t.Parallel()
	d := newNode(t)
	d.notice = wire.NoVolume("dta", "example.com/pod-fuse")
	d.start()
	const want = `pod-fuse: no volume "dta" of driver example.com/pod-fuse is mounted in this pod; the program serves nobody until there is one` + "\n"
	p := d.launch("run", "--", "/bin/true", "{}")
	if status := p.status(); status != 0 || p.text() != want {
		t.Errorf("status %d, printed %q", status, p.text())
	}
	p = d.launch("run", "--restart", "--", "/bin/true", "{}")
	before := len(d.asked(wire.Serve))
	eventually(t, "it is started again", func() bool { return len(d.asked(wire.Serve)) >= before+3 })
	p.signal(unix.SIGTERM)
	p.status()
	if text := p.text(); !strings.HasPrefix(text, want) || strings.Count(text, "no volume") != 1 {
		t.Errorf("started again, it printed %q", text)
	}
}

func TestReady(t *testing.T) {
	t.Parallel()
	patient, soon := []string{"--timeout", hang.String()}, []string{"--timeout", "5s"}
	type row struct {
		answer *wire.Answer
		args   []string
		status int
		prints string
	}
	rows := map[*process]row{}
	for _, row := range []row{
		{&wire.Answer{State: wire.Served}, patient, 0, ""},
		{&wire.Answer{State: wire.Waiting}, soon, 1, "pod-fuse: the volume is not served: no program has served it yet\n"},
		{&wire.Answer{State: wire.Dead}, soon, 1, "pod-fuse: the volume is not served: its program has died; readers wait for the next one\n"},
		{&wire.Answer{State: wire.Gone}, soon, 1, "pod-fuse: the volume is not served: no program has served it for so long that readers get an error\n"},
		{&wire.Answer{Error: isGone}, patient, 1, "pod-fuse: " + isGone + "\n"},
		{nil, soon, 1, "; is the driver running on this node?\n"},
		{nil, []string{"--timeout", "soon"}, 2, "invalid argument \"soon\""},
		{nil, []string{"now"}, 2, "pod-fuse: ready takes no argument \"now\"; see pod-fuse ready --help\n"},
		{nil, []string{"--help"}, 0, "Usage:\n  pod-fuse ready"},
	} {
		d := newNode(t)
		d.answer = func(int, wire.Request) (*wire.Answer, bool) { return row.answer, false }
		rows[d.start().launch(append([]string{"ready"}, row.args...)...)] = row // some take five seconds
	}
	for p, row := range rows {
		if status := p.status(); status != row.status {
			t.Errorf("%q of %+v: status %d, want %d", row.args, row.answer, status, row.status)
		}
		if got := p.text(); !strings.Contains(got, row.prints) || row.prints == "" && got != "" {
			t.Errorf("%q of %+v printed %q, want %q", row.args, row.answer, got, row.prints)
		}
	}
}

// A probe that did not wait would fail before the program can serve.
func TestReadyWaitsForAProgram(t *testing.T) {
	t.Parallel()
	d := newNode(t)
	d.answer = func(n int, _ wire.Request) (*wire.Answer, bool) {
		if n < 5 {
			return &wire.Answer{State: wire.Waiting}, false
		}
		return &wire.Answer{State: wire.Served}, false
	}
	p := d.start().launch("ready", "--timeout", hang.String())
	if status, text := p.status(), p.text(); status != 0 || text != "" {
		t.Errorf("status %d, printed %q", status, text)
	}
	if asked := len(d.asked(wire.Ready)); asked != 5 {
		t.Errorf("it has asked %d times", asked)
	}
}
