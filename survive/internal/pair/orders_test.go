package pair

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
)

// A step is something that happens in a world. The world comes to rest before the next one.
type step func(*world)

func wait(d time.Duration) step { return func(*world) { time.Sleep(d) } }

// kill kills processes in the same instant.
func kill(pids ...int) step {
	return func(w *world) {
		for _, pid := range pids {
			w.get(pid).die(false)
		}
	}
}

func hang(pid int) step {
	return func(w *world) { w.change(func() { w.processes[pid-1].hung = true }) }
}

// stop is SIGSTOP, and resume SIGCONT.
func stop(pid int) step {
	return func(w *world) { w.change(func() { w.processes[pid-1].resumed = make(chan struct{}) }) }
}
func resume(pid int) step {
	return func(w *world) {
		w.change(func() { close(w.processes[pid-1].resumed); w.processes[pid-1].resumed = nil })
	}
}

// stick has a thread of a process wait in the kernel, so that SIGKILL does not end it.
func stick(pid int) step {
	return func(w *world) { w.change(func() { w.processes[pid-1].stubborn = true }) }
}

// free ends what only a thread that waits in the kernel has kept.
func free(pid int) step { return func(w *world) { w.get(pid).die(true) } }

func term(pid int) step { return func(w *world) { w.get(pid).terminate <- unix.SIGTERM } }

// birth says how a process will be that is not born yet.
func birth(pid int, f fault) step { return func(w *world) { w.change(func() { w.born[pid] = f }) } }

// spawnFails has attempts to start a process fail.
func spawnFails(times int) step { return func(w *world) { w.change(func() { w.spawns = times }) } }

func lockless(w *world) { w.change(func() { w.lockless = true }) }

func unmount(w *world) { close(w.unmounted) }

// at does something when a process asks for what for the nth time.
func at(pid int, what string, nth int, s step) step {
	return func(w *world) { w.change(func() { w.when[fmt.Sprintf("%d %s %d", pid, what, nth)] = func() { s(w) } }) }
}

// says has a process that somebody has taken over send packets to the one that started it, and
// hears has it get them from there.
func says(pid int, packets ...string) step {
	return func(w *world) { w.change(func() { w.processes[pid-1].ends[0].other.getsAll(packets) }) }
}
func hears(pid int, packets ...string) step {
	return func(w *world) { w.change(func() { w.processes[pid-1].ends[0].getsAll(packets) }) }
}

func (e *end) getsAll(packets []string) {
	for _, packet := range packets {
		e.gets([]byte(packet))
	}
}

// upgradeTo expects an error with a text in it; "": none.
func upgradeTo(version, want string, between ...step) step {
	return func(w *world) {
		err := w.upgrade(version, func() {
			for _, s := range between {
				s(w)
			}
		})
		if w.t.Failed() {
			return
		}
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			w.t.Errorf("upgrade: %v; want %q", err, want)
		}
	}
}

func asks(c command, want string) step {
	return func(w *world) {
		answer, err := w.ask(c)
		if err != nil || want == "" && answer.Error != "" || !strings.Contains(answer.Error, want) {
			w.t.Errorf("%+v: %+v, %v; want %q", c, answer, err, want)
		}
	}
}

// squat gives a lock to somebody who has this PID as far as the kernel tells.
func squat(b int64, pid int) step {
	return func(w *world) { w.change(func() { w.locks[b] = &fake{world: w, pid: pid} }) }
}

// quickly expects steps to take no longer than a time.
func quickly(limit time.Duration, steps ...step) step {
	return func(w *world) {
		begun := time.Now()
		w.run(steps...)
		if took := time.Since(begun); took > limit {
			w.t.Errorf("it took %v", took)
		}
	}
}

// asked expects that a process has asked its env for what so many times, since it was born.
func asked(pid int, what string, times int) step {
	return func(w *world) {
		w.mu.Lock()
		defer w.mu.Unlock()
		if got := w.calls[fmt.Sprintf("%d %s", pid, what)]; got != times {
			w.t.Errorf("process %d: %s %d times, want %d", pid, what, got, times)
		}
	}
}

// ages has a process speak a newer format, slow take its time for signs of life, and opens
// fail to open the device for the nth time.
func ages(pid int) step { return func(w *world) { w.change(func() { w.processes[pid-1].format = 1 }) } }
func slow(pid int, d time.Duration) step {
	return func(w *world) { w.change(func() { w.processes[pid-1].probes = d }) }
}
func opens(pid, nth int) step {
	return func(w *world) { w.change(func() { w.processes[pid-1].opens = map[int]error{nth: errTest} }) }
}

// is expects a state.
func is(want string) step {
	return func(w *world) {
		if got := w.state(); got != want {
			w.t.Errorf("%s, want %s", got, want)
		}
	}
}

// logs expects a line in the log.
func logs(text string) step {
	return func(w *world) {
		w.mu.Lock()
		defer w.mu.Unlock()
		if !strings.Contains(strings.Join(w.log, "\n"), text) {
			w.t.Errorf("nothing is logged of %q", text)
		}
	}
}

const (
	ms = time.Millisecond
	// hangTime is how long readers wait at most when the active process hangs.
	hangTime = (silentBeats + dying + 1) * beat
)

var errTest = errors.New("it fails in this test")

// orders are what may happen to a pair of which process 1 serves and 2 stands by; and who
// does what ten seconds later, and how long nobody served.
var orders = []struct {
	name  string
	steps []step
	want  string
	gap   time.Duration
}{
	{"nothing", nil, "1 serves; 2 stands by; start, 0 takeovers, 0 upgrades", 0},

	// Deaths.
	{"the active process dies", []step{kill(1), asked(2, "recover", 1)}, "2 serves; 3 stands by; crash, 1 takeovers, 0 upgrades", 0},
	{"the standby dies", []step{kill(2)}, "1 serves; 3 stands by; start, 0 takeovers, 0 upgrades", 0},
	{"both die at once", []step{kill(1, 2)}, "", forever},
	{"the active process dies, then its successor", []step{kill(1), wait(ms * 100), kill(2)},
		"3 serves; 4 stands by; crash, 2 takeovers, 0 upgrades", 0},
	{"the standby dies, then the active process, before another one is started", []step{kill(2), wait(2 * ms), kill(1)}, "", forever},
	{"the active process dies before the new standby is adopted", []step{kill(2), at(3, "send ready", 1, kill(1))},
		"3 serves; 4 stands by; crash, 1 takeovers, 0 upgrades", 10 * ms},
	{"the standby dies ten times", []step{kill(2), wait(time.Second), kill(3), wait(time.Second), kill(4), wait(time.Second), kill(5)},
		"1 serves; 6 stands by; start, 0 takeovers, 0 upgrades", 0},
	{"a standby that lived calmly is replaced at once", []step{kill(2), wait(2 * time.Second), kill(3), wait(2 * time.Second),
		kill(4), wait(2 * time.Second), kill(5), wait(2 * time.Second), kill(6), wait(20 * ms),
		is("1 serves; 7 stands by; start, 0 takeovers, 0 upgrades")}, "1 serves; 7 stands by; start, 0 takeovers, 0 upgrades", 0},
	{"a standby that dies early is waited for", []step{birth(3, fault{broken: errTest}), birth(4, fault{broken: errTest}), birth(5, fault{broken: errTest}),
		birth(6, fault{broken: errTest}), birth(7, fault{broken: errTest}), kill(2), wait(300 * ms),
		is("1 serves; start, 0 takeovers, 0 upgrades")}, "1 serves; 8 stands by; start, 0 takeovers, 0 upgrades", 0},
	{"a killed process that cannot end keeps its lock", []step{stick(1), kill(1), wait(hangTime + ms), logs("(hang, 100.0 ms)"), logs("2: another process keeps")},
		"1 is left; 2 serves; 3 stands by; 1 has the active lock; 2 has the standby lock; hang, 1 takeovers, 0 upgrades", hangTime},

	// The standby's start.
	{"no new standby can serve", []step{func(w *world) {
		for pid := 3; pid < 20; pid++ {
			birth(pid, fault{broken: errTest})(w)
		}
	}, kill(2), wait(time.Minute), logs("1: lost a standby, one of many: true")}, "1 serves; 20 stands by; start, 0 takeovers, 0 upgrades", 0},
	{"the standby cannot be started, twice", []step{spawnFails(2), kill(2)}, "1 serves; 3 stands by; start, 0 takeovers, 0 upgrades", 0},
	{"the new standby cannot serve", []step{birth(3, fault{broken: errTest}), kill(2), wait(time.Second), logs("fails in this test"),
		logs("1: lost a standby, one of many: false")},
		"1 serves; 4 stands by; start, 0 takeovers, 0 upgrades", 0},
	{"the new standby cannot open the device", []step{birth(3, fault{opens: map[int]error{1: errTest}}), kill(2)},
		"1 serves; 4 stands by; start, 0 takeovers, 0 upgrades", 0},
	{"the new standby is never ready", []step{birth(3, fault{late: time.Hour}), kill(2), wait(11 * time.Second), logs("it hangs")},
		"1 serves; 4 stands by; start, 0 takeovers, 0 upgrades", 0},
	{"the new standby is ready late", []step{birth(3, fault{late: 9800 * ms}), kill(2), wait(5 * time.Second)},
		"1 serves; 3 stands by; start, 0 takeovers, 0 upgrades", 0},
	{"the new standby speaks a newer format", []step{birth(3, fault{format: 1}), kill(2), wait(time.Second), logs("speaks format 2")},
		"1 serves; 4 stands by; start, 0 takeovers, 0 upgrades", 0},

	// Hangs.
	{"the active process hangs", []step{hang(1), wait(hangTime), asked(2, "recover", 1)}, "2 serves; 3 stands by; hang, 1 takeovers, 0 upgrades", hangTime},
	{"the active process is stopped", []step{stop(1)}, "2 serves; 3 stands by; hang, 1 takeovers, 0 upgrades", hangTime},
	{"the active process hangs, and cannot end", []step{stick(1), hang(1), wait(hangTime)},
		"1 is left; 2 serves; 3 stands by; 1 has the active lock; 2 has the standby lock; hang, 1 takeovers, 0 upgrades", hangTime},
	{"a process that was killed, and cannot end, has sent a sign of life before", []step{stick(1), hang(1), at(2, "kill", 1, hears(2, string(pongPacket))), wait(hangTime + beat)},
		"1 is left; 2 serves; 3 stands by; 1 has the active lock; 2 has the standby lock; hang, 1 takeovers, 0 upgrades", hangTime},
	{"the active process is stopped for four seconds", []step{stop(1), wait(4 * time.Second), resume(1)},
		"1 serves; 2 stands by; start, 0 takeovers, 0 upgrades", 4 * time.Second},
	{"it is, again and again", []step{stop(1), wait(3 * time.Second), resume(1), wait(time.Second), stop(1), wait(3 * time.Second), resume(1), wait(time.Second),
		stop(1), wait(3 * time.Second), resume(1)}, "1 serves; 2 stands by; start, 0 takeovers, 0 upgrades", 3 * time.Second},
	{"the standby is stopped", []step{stop(2), wait(10 * time.Second), logs("it hangs")}, "1 serves; 3 stands by; start, 0 takeovers, 0 upgrades", 0},
	{"the standby is stopped for eight seconds", []step{stop(2), wait(8 * time.Second), resume(2)}, "1 serves; 2 stands by; start, 0 takeovers, 0 upgrades", 0},
	{"the active process hangs when the standby is stopped for a while", []step{stop(2), hang(1), wait(3 * time.Second), resume(2)},
		"2 serves; 3 stands by; hang, 1 takeovers, 0 upgrades", hangTime + 4*time.Second},
	{"the successor hangs", []step{kill(1), wait(time.Second), hang(2)}, "3 serves; 4 stands by; hang, 2 takeovers, 0 upgrades", hangTime},

	// Processes that somebody has taken over.
	{"a standby that says ready, and nothing of itself", []step{birth(3, fault{late: time.Hour}), kill(2), wait(10 * ms), says(3, `{"Kind":"ready"}`),
		logs("not which process it is")}, "1 serves; 4 stands by; start, 0 takeovers, 0 upgrades", 0},
	{"a standby that says that it is all processes", []step{birth(3, fault{late: time.Hour}), kill(2), wait(10 * ms), says(3, `{"Kind":"ready","Process":{"pid":-1}}`),
		logs("not which process it is")}, "1 serves; 4 stands by; start, 0 takeovers, 0 upgrades", 0},
	{"a new version that says ready, and nothing of itself", []step{birth(3, fault{late: time.Hour}),
		quickly(time.Second, upgradeTo("1.1", "not which process it is", says(3, `{"Kind":"ready"}`), wait(100*ms)))}, "1 serves; 2 stands by; start, 0 takeovers, 0 upgrades", 0},
	{"a standby that says that it serves", []step{says(2, `{"Kind":"serving"}`), logs("was not asked to")}, "1 serves; 3 stands by; start, 0 takeovers, 0 upgrades", 0},
	{"a standby that says so before it is one, and somebody unknown has the lock", []step{birth(3, fault{late: time.Hour}), squat(activeByte, 0), kill(2),
		func(w *world) { w.change(func() { w.processes[0].life.hasActive = false }) }, wait(10 * ms), says(3, `{"Kind":"serving"}`), logs("was not asked to")},
		"1 serves; 4 stands by; 0 has the active lock; start, 0 takeovers, 0 upgrades", 0},
	{"a standby that says what nobody understands", []step{says(2, `null`, `{}`, `[]`, `"ready"`, `{"Kind":"fly"}`, `{"Kind":"standBy","History":{}}`, `{"Kind":"pong"}`,
		`{"Kind":"leave"}`, `{"Kind":"takeOver"}`, `{"Kind":`), logs("its kind is not known")}, "1 serves; 2 stands by; start, 0 takeovers, 0 upgrades", 0},
	{"an active process that says standBy, and nothing of what was before", []step{birth(3, fault{late: time.Second}), kill(2), wait(10 * ms), hears(3, `{"Kind":"standBy"}`)},
		"1 serves; 4 stands by; start, 0 takeovers, 0 upgrades", 0},
	{"an active process that says what nobody understands", []step{hears(2, `null`, `{}`, `{"Kind":"fly"}`, `{"Kind":"ready"}`, `{"Kind":"standBy"}`, `{"Kind":"ping"}`,
		`{"Kind":"serving"}`, `{"Kind":"broken"}`)}, "1 serves; 2 stands by; start, 0 takeovers, 0 upgrades", 0},

	// Unmount, stop, SIGTERM.
	{"unmounted", []step{unmount}, "", forever},
	{"unmounted before the standby is ready", []step{kill(2), wait(5 * ms), unmount}, "", forever},
	{"stop", []step{asks(command{Command: commandStop}, ""), asked(1, "stop", 1)}, "", forever},
	{"stop, and the standby is stopped", []step{stop(2), asks(command{Command: commandStop}, "")}, "", forever},
	{"stop during an upgrade", []step{upgradeTo("1.1", "EOF", wait(100*ms), asks(command{Command: commandStop}, ""), wait(time.Second), is(""))}, "", forever},
	{"SIGTERM to the active process", []step{term(1), wait(10 * ms), asked(2, "recover", 0), is("2 serves; 3 stands by; planned, 1 takeovers, 0 upgrades")}, "2 serves; 3 stands by; planned, 1 takeovers, 0 upgrades", 10 * ms},
	{"SIGTERM to the standby", []step{term(2)}, "1 serves; 3 stands by; start, 0 takeovers, 0 upgrades", 0},
	{"SIGTERM before the standby is adopted", []step{birth(3, fault{late: time.Second}), kill(2), wait(10 * ms), term(1), wait(500 * ms),
		is("1 serves; 3 is left; start, 0 takeovers, 0 upgrades")}, "3 serves; 4 stands by; planned, 1 takeovers, 0 upgrades", 10 * ms},
	{"SIGTERM to a standby that was not adopted", []step{birth(3, fault{late: time.Second}), kill(2), at(3, "send ready", 1, term(3))},
		"1 serves; 4 stands by; start, 0 takeovers, 0 upgrades", 0},
	{"SIGTERM to one after the other", []step{term(1), wait(time.Second), term(2)}, "3 serves; 4 stands by; planned, 2 takeovers, 0 upgrades", 10 * ms},

	// Taking over.
	{"the successor cannot recover requests", []step{kill(2), birth(3, fault{recover: errTest}), wait(time.Second), kill(1), logs("may be lost")},
		"3 serves; 4 stands by; crash, 1 takeovers, 0 upgrades", 0},
	{"the successor finds that the file system was unmounted", []step{kill(2), birth(3, fault{recover: unix.ENODEV}), wait(time.Second), kill(1)}, "", forever},
	{"the successor of one that leaves cannot open the device", []step{kill(2), birth(3, fault{opens: map[int]error{2: errTest}}), wait(time.Second), term(1), wait(time.Second)},
		"4 serves; 5 stands by; planned, 1 takeovers, 0 upgrades", time.Second},
	{"the successor of one that leaves hangs", []step{at(2, "open", 2, stop(2)), term(1)}, "3 serves; 4 stands by; planned, 1 takeovers, 0 upgrades", handOverTime + 10*ms},
	{"the one that leaves dies when it has handed over", []step{at(1, "send takeOver", 1, kill(1)), term(1)}, "2 serves; 3 stands by; crash, 1 takeovers, 0 upgrades", 10 * ms},

	// Commands.
	{"status", []step{asks(command{Command: commandStatus}, "")}, "1 serves; 2 stands by; start, 0 takeovers, 0 upgrades", 0},
	{"a command that is not known", []step{asks(command{Command: "fly"}, "fly is not known")}, "1 serves; 2 stands by; start, 0 takeovers, 0 upgrades", 0},
	{"a command of a newer format", []step{asks(command{Format: format + 1, Command: commandStop}, "speaks format 2")}, "1 serves; 2 stands by; start, 0 takeovers, 0 upgrades", 0},
	{"proceed without an upgrade", []step{asks(command{Command: commandProceed}, "no upgrade")}, "1 serves; 2 stands by; start, 0 takeovers, 0 upgrades", 0},
	{"an upgrade without a link", []step{asks(command{Command: commandUpgrade}, "no link")}, "1 serves; 2 stands by; start, 0 takeovers, 0 upgrades", 0},

	// Upgrades.
	{"an upgrade", []step{upgradeTo("1.1", "")}, "3 serves; 4 stands by; planned, 1 takeovers, 1 upgrades", 10 * ms},
	{"an upgrade to the same version", []step{upgradeTo("1.0", "")}, "3 serves; 4 stands by; planned, 1 takeovers, 0 upgrades", 10 * ms},
	{"two upgrades", []step{upgradeTo("1.1", ""), wait(time.Second), upgradeTo("1.2", "")}, "5 serves; 6 stands by; planned, 2 takeovers, 2 upgrades", 10 * ms},
	{"an upgrade while there is no standby", []step{birth(3, fault{late: time.Second}), kill(2), wait(10 * ms), upgradeTo("1.1", "")}, "4 serves; 5 stands by; planned, 1 takeovers, 1 upgrades", 10 * ms},
	{"an upgrade when the new version is ready first", []step{upgradeTo("1.1", "", wait(time.Second))}, "3 serves; 4 stands by; planned, 1 takeovers, 1 upgrades", 10 * ms},
	{"a second upgrade during one", []step{upgradeTo("1.1", "EOF", upgradeTo("1.2", "")), logs("another call-out upgrades")},
		"4 serves; 5 stands by; planned, 1 takeovers, 1 upgrades", 10 * ms},
	{"an upgrade whose call-out was killed", []step{func(w *world) { w.beginUpgrade("1.1") }, wait(100 * ms),
		is("1 serves; 2 stands by; start, 0 takeovers, 0 upgrades")}, "1 serves; 2 stands by; start, 0 takeovers, 0 upgrades", 0},
	{"a second upgrade after one whose call-out was killed", []step{func(w *world) { w.beginUpgrade("1.1") }, upgradeTo("1.2", "")}, "4 serves; 5 stands by; planned, 1 takeovers, 1 upgrades", 10 * ms},
	{"another client proceeds", []step{upgradeTo("1.1", "", asks(command{Command: commandProceed}, "no upgrade"), wait(100*ms),
		is("1 serves; which has 2 links; 2 stands by; 3 is left; start, 0 takeovers, 0 upgrades"))}, "3 serves; 4 stands by; planned, 1 takeovers, 1 upgrades", 10 * ms},
	{"a new version that cannot serve", []step{birth(3, fault{broken: errTest}), upgradeTo("1.1", "version 1.0 goes on: it fails in this test")}, "1 serves; 2 stands by; start, 0 takeovers, 0 upgrades", 0},
	{"a new version that cannot serve, and a client that is slow", []step{birth(3, fault{broken: errTest}),
		upgradeTo("1.1", "version 1.0 goes on", wait(time.Second), asked(3, "open", 0), asked(3, "send ready", 0))}, "1 serves; 2 stands by; start, 0 takeovers, 0 upgrades", 0},
	{"a new version that gets SIGTERM", []step{upgradeTo("1.1", "died before it was ready", wait(100*ms), term(3), wait(100*ms), is("1 serves; 2 stands by; start, 0 takeovers, 0 upgrades"))},
		"1 serves; 2 stands by; start, 0 takeovers, 0 upgrades", 0},
	{"a new version to which the old one speaks a newer format", []step{ages(1), ages(2), quickly(10*ms, upgradeTo("1.1", "did not serve")), wait(100 * ms),
		is("1 serves; 4 stands by; start, 0 takeovers, 0 upgrades")}, "1 serves; 4 stands by; start, 0 takeovers, 0 upgrades", 0},
	{"a hand-over that fails while the standby waits for a sign of life", []step{slow(1, 300*ms), wait(100 * ms), at(3, "open", 2, kill(3)), upgradeTo("1.1", "did not serve")},
		"1 serves; 4 stands by; start, 0 takeovers, 0 upgrades", 10 * ms},
	{"a hand-over that fails, and the device cannot be opened again", []step{opens(1, 3), at(3, "open", 2, kill(3)), upgradeTo("1.1", "handed over, and did not")}, "", forever},
	{"a hand-over before the successor has its lock", []step{birth(3, fault{late: time.Second}), kill(2), at(3, "take", 1, wait(10*ms)), wait(10 * ms), term(1)},
		"3 serves; 4 stands by; planned, 1 takeovers, 0 upgrades", 10 * ms},
	{"a hand-over to a successor that hangs before it has its lock", []step{birth(3, fault{late: time.Second}), kill(2), at(3, "take", 1, stop(3)), wait(10 * ms), term(1),
		wait(6 * time.Second), is("4 serves; 5 stands by; planned, 1 takeovers, 0 upgrades")}, "4 serves; 5 stands by; planned, 1 takeovers, 0 upgrades", 10 * ms},
	{"the active process is stopped, and somebody unknown has its lock", []step{squat(activeByte, 0), stop(1), wait(hangTime + ms), kill(1)},
		"2 serves; 3 stands by; 0 has the active lock; 2 has the standby lock; hang, 1 takeovers, 0 upgrades", hangTime},
	{"the active process is stopped, and the kernel names the standby for its lock", []step{squat(activeByte, 2), stop(1), wait(hangTime + ms), kill(1)},
		"2 serves; 3 stands by; 2 has the active lock; 2 has the standby lock; hang, 1 takeovers, 0 upgrades", hangTime},
	{"a service hangs, and somebody unknown has the active lock", []step{squat(activeByte, 0), hang(1), wait(hangTime + ms), logs("in the place of this process")},
		"2 serves; 3 stands by; 0 has the active lock; 2 has the standby lock; hang, 1 takeovers, 0 upgrades", hangTime},
	{"a process that serves without its lock hands over", []step{stick(1), kill(1), wait(hangTime + time.Second), term(2), wait(250 * ms),
		is("1 is left; 3 serves; 4 stands by; 1 has the active lock; 3 has the standby lock; planned, 2 takeovers, 0 upgrades")},
		"1 is left; 3 serves; 4 stands by; 1 has the active lock; 3 has the standby lock; planned, 2 takeovers, 0 upgrades", hangTime},
	{"it gets the lock when that is free", []step{stick(1), kill(1), wait(hangTime + time.Second), free(1)}, "2 serves; 3 stands by; hang, 1 takeovers, 0 upgrades", hangTime},
	{"a hand-over where locks do not work", []step{lockless, term(1), wait(time.Second), is("2 serves; 3 stands by; nobody has the active lock; 2 has the standby lock; planned, 1 takeovers, 0 upgrades")},
		"2 serves; 3 stands by; nobody has the active lock; 2 has the standby lock; planned, 1 takeovers, 0 upgrades", 10*ms + releaseTime},
	{"the old process dies during an upgrade where locks do not work", []step{lockless, upgradeTo("1.1", "EOF", kill(1)), wait(hangTime)},
		"2 serves; 4 stands by; nobody has the active lock; 2 has the standby lock; crash, 1 takeovers, 0 upgrades", releaseTime + 10*ms},
	{"a new version that dies", []step{at(3, "begin", 1, kill(3)), upgradeTo("1.1", "died before it was ready")}, "1 serves; 2 stands by; start, 0 takeovers, 0 upgrades", 0},
	{"a new version that hangs", []step{birth(3, fault{late: time.Hour}), upgradeTo("1.1", "not ready in time")}, "1 serves; 2 stands by; start, 0 takeovers, 0 upgrades", 0},
	{"a new version of a newer format", []step{birth(3, fault{format: 1}), upgradeTo("1.1", "version 1.0 goes on: it speaks format 2"),
		is("1 serves; 2 stands by; start, 0 takeovers, 0 upgrades")}, "1 serves; 2 stands by; start, 0 takeovers, 0 upgrades", 0},
	{"a new version that dies when it is to serve", []step{at(3, "open", 2, kill(3)), upgradeTo("1.1", "did not serve"), wait(100 * ms),
		is("1 serves; 4 stands by; start, 0 takeovers, 0 upgrades")}, "1 serves; 4 stands by; start, 0 takeovers, 0 upgrades", 10 * ms},
	{"a new version that hangs when it is to serve", []step{at(3, "open", 2, stop(3)), upgradeTo("1.1", "did not serve")}, "1 serves; 4 stands by; start, 0 takeovers, 0 upgrades", handOverTime + 10*ms},
	{"a new version that hangs when it is to serve, and cannot end", []step{at(3, "open", 2, func(w *world) { stick(3)(w); stop(3)(w) }), upgradeTo("1.1", "did not serve")},
		"1 serves; 3 is left; 4 stands by; 3 has the active lock; 1 has the standby lock; start, 0 takeovers, 0 upgrades", handOverTime + beat + 10*ms},
	{"an upgrade after one that failed", []step{birth(3, fault{broken: errTest}), upgradeTo("1.1", "fails in this test"), upgradeTo("1.1", "")}, "4 serves; 5 stands by; planned, 1 takeovers, 1 upgrades", 10 * ms},
	{"the old process dies when it has handed over", []step{at(3, "send serving", 1, kill(1)), upgradeTo("1.1", "no answer, but it serves")}, "3 serves; 4 stands by; planned, 1 takeovers, 1 upgrades", 10 * ms},
	{"the old process dies before the new one is ready", []step{upgradeTo("1.1", "EOF", kill(1))}, "2 serves; 4 stands by; crash, 1 takeovers, 0 upgrades", 0},
	{"the old process dies when it has sent its standby away", []step{at(1, "end", 1, kill(1)), upgradeTo("1.1", "no answer, but it serves")}, "3 serves; 4 stands by; crash, 1 takeovers, 0 upgrades", 10 * ms},
	{"the old standby dies during an upgrade", []step{upgradeTo("1.1", "", kill(2))}, "3 serves; 5 stands by; planned, 1 takeovers, 1 upgrades", 10 * ms},
	{"SIGTERM during an upgrade", []step{birth(3, fault{late: time.Second}), upgradeTo("1.1", "EOF", term(1))}, "2 serves; 4 stands by; planned, 1 takeovers, 0 upgrades", 10 * ms},
	{"unmounted during an upgrade", []step{upgradeTo("1.1", "EOF", unmount)}, "", forever},
}

// forever is a gap where nobody is left.
const forever = time.Hour

func TestOrders(t *testing.T) {
	for _, row := range orders {
		t.Run(row.name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				w.run(append(row.steps, wait(10*time.Second), is(row.want), knowsItsLocks)...)
				if w.gap > row.gap {
					w.t.Errorf("nobody served for %v", w.gap)
				}
				if w.t.Failed() {
					w.t.Log(strings.Join(w.log, "\n"))
				}
			})
		})
	}
}

func (w *world) run(steps ...step) {
	for _, s := range steps {
		s(w)
		synctest.Wait()
	}
}

// After any death at any moment, the processes that are left go on, with a standby, and no
// upgrade loses the connection.
func TestAnyDeathAtAnyMoment(t *testing.T) {
	scenarios := map[string][]step{
		"start":            nil,
		"a crash":          {kill(1)},
		"a hang":           {hang(1)},
		"a lost standby":   {kill(2)},
		"SIGTERM":          {term(1)},
		"an upgrade":       {func(w *world) { _ = w.upgrade("1.1", func() {}) }},
		"a broken upgrade": {birth(3, fault{broken: errTest}), func(w *world) { _ = w.upgrade("1.1", func() {}) }},
	}
	rows := 0
	for name, steps := range scenarios {
		var moments []moment
		inWorld(t, func(w *world) {
			w.change(func() { w.moments = nil })
			w.run(steps...)
			time.Sleep(hangTime + time.Second)
			w.change(func() { moments = slices.Clone(w.moments) })
		})
		for _, m := range moments {
			if strings.Contains(m.name, "send p") {
				continue // in between, all is as it was
			}
			for _, victim := range m.live {
				rows++
				t.Run(fmt.Sprintf("%s/%d dies at %s", name, victim, m.name), func(t *testing.T) {
					inWorld(t, func(w *world) { w.survives(steps, m.name, victim) })
				})
			}
		}
	}
	t.Log(rows, "rows")
}

// survives has a process die at a moment of an order.
func (w *world) survives(steps []step, moment string, victim int) {
	others := 0
	death := func() {
		dies := w.get(victim)
		if dies == nil {
			return // who does what first in an instant is not the same each time
		}
		w.change(func() {
			for _, p := range w.processes {
				if p.pid != victim && !p.gone && (p.serving || !p.served) { // or it is about to end
					others++
				}
			}
		})
		dies.die(false)
	}
	w.change(func() { w.unlucky, w.when[moment] = true, death })
	w.run(steps...)
	time.Sleep(3 * hangTime)
	state := w.state()
	if fine := pairIsWell.MatchString(state); !fine && (others != 0 || state != "") {
		w.t.Errorf("%d others lived; now %q", others, state)
	}
	if state != "" && w.gap > hangTime+handOverTime {
		w.t.Errorf("nobody served for %v", w.gap)
	}
	if w.t.Failed() {
		w.t.Log(strings.Join(w.log, "\n"))
	}
}

var pairIsWell = regexp.MustCompile(`^\d+ serves; \d+ stands by; [a-z]+, \d takeovers, \d upgrades$`)

// inWorld calls a function in a world in which process 1 serves and 2 stands by.
func inWorld(t *testing.T, f func(*world)) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.end()
		if err := w.start("1.0"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		f(w)
	})
}
