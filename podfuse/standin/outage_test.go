package standin

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/podfuse"
	"example.com/pod-info-fuse/podfuse/wire"
	"example.com/pod-info-fuse/survive/volume"
)

// world is what the outages work in: kernel, mounter and processes, in virtual time. It notes what
// they want of it.
type world struct {
	t       *testing.T
	o       *outages
	tickets uint64
	wait    time.Duration
	waitErr error // wait could not be read

	mu      sync.Mutex   // guards what follows
	pending []wire.Order // to attach, which the mounter has not answered
	happens []string
}

// named is a connection.
type named struct {
	*world
	name string
}

func (n named) fail(id uint64, status fuse.Status) {
	n.note("%s%d %s", n.name, id, map[fuse.Status]string{
		fuse.ENOENT: "ENOENT", fuse.Status(unix.ESTALE): "ESTALE", fuse.Status(unix.ENOTCONN): "ENOTCONN", fuse.Status(unix.ECONNABORTED): "ECONNABORTED",
	}[status])
}

func (w *world) note(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.happens = append(w.happens, fmt.Sprintf(format, args...))
}

// happened is what has, since the last time.
func (w *world) happened() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	happened := w.happens
	w.happens = nil
	return happened
}

func (w *world) order(o wire.Order) {
	switch o.Kind {
	case wire.Attach:
		w.mu.Lock()
		w.pending = append(w.pending, o)
		w.mu.Unlock()
		w.note("%s", attachFor(o.Generation, o.PID))
	case wire.Counts:
		w.note("%d wait", o.Waiting)
	}
}

func (w *world) ticket() uint64                           { w.tickets++; return w.tickets }
func (w *world) timeout(volume.ID) (time.Duration, error) { return w.wait, w.waitErr }
func (w *world) log(format string, args ...any)           { w.note("log") }

// A step is something that happens in a world.
type step func(*world)

const (
	one   volume.ID = 1
	other volume.ID = 2
)

func (w *world) on(name string) connection { return named{w, name} }

// asks is a request of a thread on a stand-in.
func asks(id uint64, view string, pid uint32) step {
	return func(w *world) { w.o.hold(one, view, pid, caller{w.on("s"), id}) }
}

// loses is a request on a connection of a dead program.
func loses(id uint64, thread uint32) step {
	return func(w *world) { w.o.lose(one, thread, caller{w.on("d"), id}) }
}

func interrupts(name string, id uint64) step {
	return func(w *world) { w.o.interrupted(caller{w.on(name), id}) }
}

func serves(generation uint64) step { return func(w *world) { w.o.isServed(one, generation) } }

// dies is a death with a connection, which ends forgets, and vanishes one without.
func dies(generation uint64) step {
	return func(w *world) { w.o.died(one, generation, time.Time{}, w.on("d")) }
}
func ends(w *world) { w.o.ends(one, w.on("d")) }
func vanishes(generation uint64) step {
	return func(w *world) { w.o.died(one, generation, time.Time{}, nil) }
}

// diedBefore is an event of a death some time ago.
func diedBefore(generation uint64, ago time.Duration) step {
	return func(w *world) { w.o.died(one, generation, time.Now().Add(-ago), w.on("d")) }
}

// attaches has the mounter answer the oldest order, with an error or not.
func attaches(problem string) step { return answersAttach(wire.Event{Error: problem}) }

// doubts has the mounter answer that it does not know yet whether the program lives.
func doubts() step { return answersAttach(wire.Event{Error: "who knows", Doubted: true}) }

func answersAttach(e wire.Event) step {
	return func(w *world) {
		w.mu.Lock()
		if len(w.pending) == 0 {
			w.t.Error("no order is under way")
			w.mu.Unlock()
			return
		}
		e.Ticket = w.pending[0].Ticket
		w.pending = w.pending[1:]
		w.mu.Unlock()
		w.o.attached(e)
	}
}

// isOwn tells that a request on the connection of a dead program is of the program's own container.
func isOwn(id uint64) step {
	return func(w *world) { w.o.answerOwn(one, caller{w.on("d"), id}) }
}

func passes(d time.Duration) step { return func(*world) { time.Sleep(d) } }
func waitIs(d time.Duration) step { return func(w *world) { w.wait, w.waitErr = d, nil } }
func waitIsUnread(w *world)       { w.wait, w.waitErr = podfuse.DefaultWait, errors.New("no record") }

// expires is a timer that could not be stopped any more.
func expires(w *world) {
	w.o.do(func() {
		v := w.o.volumes[one]
		if v.expire(); v.expiry != nil {
			w.t.Error("a volume that is served expires")
			stop(&v.expiry)
		}
	})
}

func told(w *world)    { w.o.told() }
func mute(w *world)    { w.o.mute() }
func forgets(w *world) { w.o.forgotten(one) }
func finish(w *world)  { w.o.end() }

// is expects that this has happened since the last one, in any order, and nothing else. How many
// wait is told in a row of its own.
func is(want ...string) step {
	return func(w *world) {
		synctest.Wait()
		got := slices.DeleteFunc(w.happened(), func(s string) bool { return strings.HasSuffix(s, " wait") })
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			w.t.Errorf("%q, want %q", got, want)
		}
	}
}

// stateIs expects a state.
func stateIs(want wire.State) step {
	return func(w *world) {
		if got, known := w.o.state(one); got != want || !known {
			w.t.Errorf("it is %s, known: %v; want %s", got, known, want)
		}
	}
}

// holds expects that so many requests are held, and queues that so many views wait for their turn.
func holds(want int) step {
	return func(w *world) {
		if got := len(w.o.callers); got != want {
			w.t.Errorf("%d requests are held, want %d", got, want)
		}
	}
}
func queues(want int) step {
	return func(w *world) {
		got := 0
		for _, view := range w.o.volumes[one].views {
			if len(view.callers) > 0 && view.ticket == 0 && view.rest == nil {
				got++
			}
		}
		if got != want {
			w.t.Errorf("%d views wait for their turn, want %d", got, want)
		}
	}
}

func nothing(w *world) { is()(w) }

// attachFor is the order to attach the mount of the first volume, and attachAll that for all views
// with a dead one.
func attachFor(generation uint64, pid int) string {
	return fmt.Sprintf("attach %d for %d", generation, pid)
}

func attachAll(generation uint64) string { return attachFor(generation, 0) }

func times(n int, steps ...step) step {
	return func(w *world) {
		for range n {
			w.run(steps...)
		}
	}
}

func (w *world) run(steps ...step) {
	for _, s := range steps {
		s(w)
		synctest.Wait()
		w.consistent()
	}
}

// consistent checks that nothing is kept for nobody.
func (w *world) consistent() {
	w.t.Helper()
	w.o.mu.Lock()
	defer w.o.mu.Unlock()
	held, underWay := 0, 0
	for _, v := range w.o.volumes {
		of := len(v.lost.callers)
		for key, view := range v.views {
			of += len(view.callers)
			if len(view.callers) == 0 && view.ticket == 0 && view.rest == nil {
				w.t.Errorf("view %s is kept for nobody", key)
			}
		}
		if of != v.held {
			w.t.Errorf("%d are held, and %d are counted", of, v.held)
		}
		held += of
		underWay += v.underWay
	}
	if held != len(w.o.callers) || underWay != len(w.o.orders) {
		w.t.Errorf("%d are held, and %d are known; %d orders are under way, and %d are known", held, len(w.o.callers), underWay, len(w.o.orders))
	}
	for c, view := range w.o.callers {
		if _, there := view.callers[c]; !there {
			w.t.Errorf("caller %d is not in its view", c.id)
		}
	}
}

var stories = map[string][]step{
	"a reader was there before the program": {
		stateIs(wire.Waiting), asks(1, "a", 10), nothing, passes(29 * time.Second), nothing, serves(1), is(attachFor(1, 10)),
		stateIs(wire.Served), attaches(""), is("s1 ESTALE"),
	},
	"the program was there before the reader": {
		serves(1), nothing, asks(1, "a", 10), is(attachFor(1, 10)), attaches(""), is("s1 ESTALE"),
	},
	"one order is for all who wait in a view, also those who came since": {
		asks(1, "a", 10), asks(2, "a", 10), serves(1), asks(3, "a", 10), is(attachFor(1, 10)), attaches(""), is("s1 ESTALE", "s2 ESTALE", "s3 ESTALE"),
		asks(4, "a", 10), is(attachFor(1, 10)),
	},
	"each view has an order of its own": {
		serves(1), asks(1, "a", 10), asks(2, "b", 20), is(attachFor(1, 10), attachFor(1, 20)), attaches(""), is("s1 ESTALE"), attaches(""), is("s2 ESTALE"),
	},
	"four views are attached at a time": {
		serves(1), asks(1, "a", 10), asks(2, "b", 20), asks(3, "c", 30), asks(4, "d", 40), asks(5, "e", 50), asks(6, "f", 60), asks(7, "f", 60),
		interrupts("s", 5),
		is(attachFor(1, 10), attachFor(1, 20), attachFor(1, 30), attachFor(1, 40)),
		attaches(""), is("s1 ESTALE", attachFor(1, 60)), attaches(""), is("s2 ESTALE"), attaches(""), attaches(""), attaches(""),
		is("s3 ESTALE", "s4 ESTALE", "s6 ESTALE", "s7 ESTALE"),
		asks(8, "e", 50), is(attachFor(1, 50)),
	},
	"what waits for its turn is not attached when the program has died": {
		serves(1), asks(1, "a", 10), asks(2, "b", 20), asks(3, "c", 30), asks(4, "d", 40), asks(5, "e", 50),
		is(attachFor(1, 10), attachFor(1, 20), attachFor(1, 30), attachFor(1, 40)), dies(1), interrupts("s", 1), attaches(""), nothing, serves(2),
		attaches(""), attaches(""), attaches(""), is(attachFor(2, 50), attachAll(2), attachFor(2, 30), attachFor(2, 40)),
		attaches(""), is("s5 ESTALE", attachFor(2, 20)),
	},
	"nobody ever serves": {
		asks(1, "a", 10), passes(20 * time.Second), asks(2, "b", 20), passes(10*time.Second - 1), nothing, stateIs(wire.Waiting),
		passes(1), is("log", "s1 ENOTCONN", "s2 ENOTCONN"), stateIs(wire.Gone), asks(3, "a", 10), is("s3 ENOTCONN"),
		passes(time.Hour), asks(4, "a", 10), is("s4 ENOTCONN"), serves(1), nothing, stateIs(wire.Served), asks(5, "a", 10), is(attachFor(1, 10)),
	},
	"a volume that nobody asks for is not gone": {passes(time.Hour), stateIs(wire.Waiting), asks(1, "a", 10), nothing},
	"wait is 0": {
		waitIs(0), asks(1, "a", 10), is("log", "s1 ENOTCONN"), serves(1), asks(2, "a", 10), is(attachFor(1, 10)), attaches(""), is("s2 ESTALE"),
		// A pod cannot fill the log by outages.
		dies(1), stateIs(wire.Gone), asks(3, "a", 10), is("s3 ENOTCONN"), passes(sayInterval), serves(2), dies(2), asks(4, "a", 10), is(attachFor(2, 0), "log", "s4 ENOTCONN"),
	},
	"how long to wait could not be read at first": {
		waitIsUnread, asks(1, "a", 10), passes(podfuse.DefaultWait - 1), waitIs(time.Minute), passes(1), nothing, asks(2, "b", 20),
		passes(time.Minute - podfuse.DefaultWait - 1), nothing, passes(1), is("log", "s1 ENOTCONN", "s2 ENOTCONN"), stateIs(wire.Gone),
	},
	"how long to wait can never be read": {
		waitIsUnread, asks(1, "a", 10), passes(podfuse.DefaultWait - 1), nothing, passes(1), is("log", "s1 ENOTCONN"),
	},
	"it serves at the moment at which the wait is over": {
		asks(1, "a", 10), serves(1), attaches(""), expires, is(attachFor(1, 10), "s1 ESTALE"), dies(1), asks(2, "a", 10), passes(30 * time.Second), is("log", "s2 ENOTCONN"),
	},
	"a death is waited for from when it was": {
		serves(1), diedBefore(1, 10*time.Second), stateIs(wire.Dead), asks(1, "a", 10), passes(20*time.Second - 1), nothing,
		passes(1), is("log", "s1 ENOTCONN"), stateIs(wire.Gone),
	},
	"a death was told with the time of another clock": {
		serves(1), diedBefore(1, -time.Hour), asks(1, "a", 10), passes(30*time.Second - 1), nothing, passes(1), is("log", "s1 ENOTCONN"),
	},
	"it dies again before the first wait is over": {
		serves(1), dies(1), passes(20 * time.Second), serves(2), is(attachAll(2)), attaches(""), dies(2), asks(1, "a", 10), passes(30*time.Second - 1), nothing,
		passes(1), is("log", "s1 ENOTCONN"),
	},
	"it dies while it is attached": {
		serves(1), asks(1, "a", 10), is(attachFor(1, 10)), dies(1), attaches(""), nothing, serves(2), is(attachFor(2, 10), attachAll(2)),
		attaches(""), is("s1 ESTALE"),
	},
	"it dies and returns while it is attached": {
		serves(1), asks(1, "a", 10), is(attachFor(1, 10)), vanishes(1), serves(2), nothing, attaches(""), is(attachFor(2, 10)), attaches(""), is("s1 ESTALE"),
	},
	"who waits is killed while an attempt rests": {
		serves(1), asks(1, "a", 10), attaches("no"), interrupts("s", 1), passes(time.Minute), is(attachFor(1, 10)), holds(0),
	},
	"who waits is killed while he is in the queue": {
		serves(1), asks(1, "a", 10), asks(2, "b", 20), asks(3, "c", 30), asks(4, "d", 40), asks(5, "e", 50), asks(6, "e", 50), queues(1), interrupts("s", 5), interrupts("s", 6),
		asks(7, "e", 50), queues(1), attaches(""), attaches(""), queues(0), interrupts("s", 7), serves(2), attaches(""), attaches(""), attaches(""),
		is(attachFor(1, 10), attachFor(1, 20), attachFor(1, 30), attachFor(1, 40), attachFor(1, 50), "s1 ESTALE", "s2 ESTALE", attachFor(2, 30), attachFor(2, 40)),
		attaches(""), attaches(""), is("s3 ESTALE", "s4 ESTALE"),
	},
	"all views are tried soon again after a success": {
		serves(1), dies(1), serves(2), attaches("no"), passes(firstRetryDelay), attaches("no"), passes(4 * firstRetryDelay), attaches(""), is(attachAll(2), attachAll(2), attachAll(2)),
		loses(1, 0), passes(copiedDelay + firstSweepDelay), is(attachAll(2), "d1 ESTALE"), attaches("no"), passes(firstRetryDelay), is(attachAll(2)),
	},
	"it dies while an attempt rests": {
		serves(1), asks(1, "a", 10), attaches("no"), is(attachFor(1, 10)), vanishes(1), passes(time.Second), nothing, serves(2), is(attachFor(2, 10)),
	},
	"an attempt fails, and the next is done": {
		serves(1), asks(1, "a", 10), is(attachFor(1, 10)), attaches("no"), asks(2, "a", 10), passes(firstRetryDelay - 1), nothing, passes(1),
		is(attachFor(1, 10)), attaches(""), is("s1 ESTALE", "s2 ESTALE"),
	},
	"all attempts fail": {
		serves(1), asks(1, "a", 10), is(attachFor(1, 10)),
		times(attempts-1, attaches("no"), passes(2*time.Second), is(attachFor(1, 10))), attaches("no"), is("log", "s1 ENOTCONN"),
		asks(2, "a", 10), is(attachFor(1, 10)), attaches("no"), passes(firstRetryDelay), is(attachFor(1, 10)),
	},
	"that nobody knows whether the program lives is no failure": {
		serves(1), asks(1, "a", 10), is(attachFor(1, 10)), times(2*attempts, doubts(), passes(firstRetryDelay), is(attachFor(1, 10))),
		dies(1), attaches("it does not"), nothing, serves(2), is(attachFor(2, 10), attachAll(2)), attaches(""), is("s1 ESTALE"),
	},
	"a view that failed is tried anew with the next program": {
		serves(1), asks(1, "a", 10), times(attempts-1, attaches("no"), passes(2*time.Second)), vanishes(1), attaches("no"), serves(2), is(
			attachFor(1, 10), attachFor(1, 10), attachFor(1, 10), attachFor(1, 10), attachFor(1, 10), attachFor(1, 10), attachFor(2, 10)),
		attaches("no"), passes(firstRetryDelay), is(attachFor(2, 10)),
	},
	"the rests are short again after a success": {
		serves(1), asks(1, "a", 10), asks(2, "a", 10), attaches("no"), passes(firstRetryDelay), attaches("no"), passes(4 * firstRetryDelay), attaches(""),
		is(attachFor(1, 10), attachFor(1, 10), attachFor(1, 10), "s1 ESTALE", "s2 ESTALE"), asks(3, "a", 10), attaches("no"), passes(firstRetryDelay),
		is(attachFor(1, 10), attachFor(1, 10)),
	},
	"the rests are short again with another program": {
		serves(1), dies(1), asks(1, "a", 10), serves(2), is(attachFor(2, 10), attachAll(2)), attaches("no"), attaches("no"), passes(firstRetryDelay), attaches("no"), attaches("no"),
		is(attachFor(2, 10), attachAll(2)), dies(2), passes(time.Second), serves(3), is(attachFor(3, 10), attachAll(3)), attaches("no"), attaches("no"), passes(firstRetryDelay),
		is(attachFor(3, 10), attachAll(3)),
	},
	"the rests get longer": {
		serves(1), asks(1, "a", 10), is(attachFor(1, 10)), attaches("no"), passes(firstRetryDelay), is(attachFor(1, 10)), attaches("no"), passes(firstRetryDelay), nothing,
		passes(3 * firstRetryDelay), is(attachFor(1, 10)),
	},
	"the mounter does not answer": {
		serves(1), asks(1, "a", 10), is(attachFor(1, 10)), passes(orderTimeout), nothing, passes(firstRetryDelay), is(attachFor(1, 10)),
		attaches(""), nothing, attaches(""), is("s1 ESTALE"), // the first is too late
	},
	"the mounter is gone": {
		serves(1), mute, asks(1, "a", 10), passes(30*time.Second - 1), nothing, passes(1), is("log", "s1 ENOTCONN"),
	},
	"who is killed is forgotten": {
		asks(1, "a", 10), asks(2, "a", 11), interrupts("s", 1), serves(1), is(attachFor(1, 11)), interrupts("s", 2), attaches("no such process"), nothing,
		passes(time.Minute), nothing,
	},
	"who is killed last leaves no view": {
		asks(1, "a", 10), interrupts("s", 1), interrupts("s", 7), serves(1), nothing,
	},
	"events of before change nothing": {
		serves(2), dies(1), serves(1), is(attachAll(2)), attaches(""), asks(1, "a", 10), is(attachFor(2, 10)), attaches(""), is("s1 ESTALE"),
		vanishes(1), vanishes(3), stateIs(wire.Served), dies(2), serves(2), stateIs(wire.Dead), vanishes(2), dies(1), stateIs(wire.Dead),
		serves(3), stateIs(wire.Served), serves(3), is(attachAll(3)),
	},
	"a program that never served dies": {
		asks(1, "a", 10), passes(10 * time.Second), vanishes(1), stateIs(wire.Waiting), passes(20 * time.Second), is("log", "s1 ENOTCONN"),
	},
	"a process that takes over is told of a death": {
		asks(1, "a", 10), diedBefore(4, 29*time.Second), stateIs(wire.Dead), passes(time.Second), is("log", "s1 ENOTCONN"),
	},
	"nobody is gone before the mounter has told everything": {
		func(w *world) { w.o.end(); w.o = newOutages(w) }, waitIs(0), asks(1, "a", 10), nothing, serves(1), is(attachFor(1, 10)), told,
		passes(2 * time.Minute), is(attachFor(1, 10), attachFor(1, 10), attachFor(1, 10), attachFor(1, 10), attachFor(1, 10), "log", "s1 ENOTCONN"),
	},
	"the mounter has told, and nobody serves": {
		func(w *world) { w.o.end(); w.o = newOutages(w) }, waitIs(0), asks(1, "a", 10), nothing, told, is("log", "s1 ENOTCONN"),
	},
	"the mounter tells nothing": {
		func(w *world) { w.o.end(); w.o = newOutages(w) }, waitIs(0), asks(1, "a", 10), passes(toldTimeout - 1), nothing, passes(1), is("log", "s1 ENOTCONN"),
	},
	"it is unmounted": {
		serves(1), asks(1, "a", 10), asks(2, "b", 20), dies(1), loses(3, 0), is(attachFor(1, 10), attachFor(1, 20)), forgets,
		is("s1 ECONNABORTED", "s2 ECONNABORTED", "d3 ECONNABORTED"), attaches(""), ends, passes(time.Hour), nothing, stateIs(wire.Waiting),
		asks(4, "a", 10), nothing, serves(1), is(attachFor(1, 10)),
	},
	"it is unmounted while it is waited for": {
		asks(1, "a", 10), forgets, is("s1 ECONNABORTED"), passes(time.Hour), nothing, forgets, nothing,
	},
	"after the end, nothing is done": {
		asks(1, "a", 10), serves(1), is(attachFor(1, 10)), finish, attaches(""), serves(2), asks(2, "a", 10), interrupts("s", 1), passes(time.Hour), nothing,
	},

	"who asks a dead program waits until the next one is attached": {
		serves(1), dies(1), loses(1, 0), nothing, serves(2), is(attachAll(2)), loses(2, 0), nothing, attaches(""), is("d1 ESTALE", "d2 ESTALE"),
		passes(time.Hour), nothing,
	},
	"all views are attached though nobody asks": {
		serves(1), dies(1), serves(2), is(attachAll(2)), attaches(""), nothing, ends, dies(2), ends, serves(3), nothing,
	},
	"who asks when another one serves already": {
		serves(1), dies(1), serves(2), is(attachAll(2)), attaches(""), loses(1, 0), is("d1 ESTALE"), passes(copiedDelay), passes(firstSweepDelay - 1), nothing, loses(2, 0), is("d2 ESTALE"),
		passes(1), is(attachAll(2)), attaches(""), passes(copiedDelay - 2), nothing,
	},
	"a hostile pod has all views attached once a second": {
		serves(1), dies(1), serves(2), attaches(""), is(attachAll(2)), times(12, loses(1, 0), passes(copiedDelay), passes(longestSweepDelay), attaches(""), is(attachAll(2), "d1 ESTALE")),
		loses(1, 0), is("d1 ESTALE"), passes(copiedDelay), passes(longestSweepDelay - 1), nothing, passes(1), is(attachAll(2)), attaches(""), dies(2), serves(3), is(attachAll(3)),
	},
	"the pause does not outlast the program": {
		serves(1), dies(1), serves(2), attaches(""), loses(1, 0), is(attachAll(2), "d1 ESTALE"), dies(2), loses(2, 0), serves(3), is(attachAll(3)), attaches(""),
		is("d2 ESTALE"), passes(time.Hour), nothing,
	},
	"it dies while all views are attached": {
		serves(1), dies(1), loses(1, 0), serves(2), is(attachAll(2)), dies(2), attaches(""), nothing, serves(3), is(attachAll(3)), attaches(""), is("d1 ESTALE"),
	},
	"it dies and returns while all views are attached": {
		serves(1), dies(1), loses(1, 0), serves(2), is(attachAll(2)), dies(2), serves(3), nothing, attaches(""), is(attachAll(3)), attaches(""), is("d1 ESTALE"),
	},
	"a view cannot be attached, and the others are answered all the same": {
		serves(1), dies(1), loses(1, 0), serves(2), is(attachAll(2)), times(attempts-1, attaches("no"), passes(2*time.Second), is(attachAll(2))), attaches("no"),
		is("log", "d1 ESTALE"),
	},
	"it dies while all views rest": {
		serves(1), dies(1), loses(1, 0), serves(2), attaches("no"), is(attachAll(2)), dies(2), passes(time.Second), nothing, serves(3), is(attachAll(3)),
	},
	"the order for all views waits for no turn": {
		serves(1), asks(1, "a", 10), asks(2, "b", 20), asks(3, "c", 30), asks(4, "d", 40), dies(1), loses(5, 0), serves(2),
		is(attachFor(1, 10), attachFor(1, 20), attachFor(1, 30), attachFor(1, 40), attachAll(2)), dies(2), serves(3), nothing,
		attaches(""), attaches(""), attaches(""), attaches(""), is(attachFor(3, 20), attachFor(3, 30), attachFor(3, 40)),
		attaches(""), is(attachAll(3)), attaches(""), is("s2 ESTALE", attachFor(3, 10)), attaches(""), attaches(""), is("s3 ESTALE", "s4 ESTALE"),
		attaches(""), attaches(""), is("d5 ESTALE", "s1 ESTALE"),
	},
	"who waits for a stand-in has an order of his own": {
		asks(1, "a", 10), serves(1), attaches(""), dies(1), loses(2, 0), asks(3, "a", 10), serves(2), is(attachFor(1, 10), "s1 ESTALE", attachFor(2, 10), attachAll(2)),
		attaches(""), attaches(""), is("s3 ESTALE", "d2 ESTALE"),
	},
	"nobody serves again": {
		serves(1), dies(1), loses(1, 0), asks(2, "a", 10), passes(30 * time.Second), is("log", "d1 ENOTCONN", "s2 ENOTCONN"), loses(3, 0), asks(4, "a", 10), is("d3 ENOTCONN", "s4 ENOTCONN"), holds(0),
	},
	"the program's own container is not kept waiting": {
		serves(1), dies(1), loses(1, 7), loses(2, 8), isOwn(2), is("d2 ESTALE"), isOwn(2), nothing, serves(2), is(attachAll(2)), attaches(""), is("d1 ESTALE"),
	},
	"its program serves before it is known": {
		serves(1), dies(1), loses(1, 7), serves(2), is(attachAll(2)), isOwn(1), nothing, attaches(""), is("d1 ESTALE"),
	},
	"the volume is unmounted before it is known": {
		serves(1), dies(1), loses(1, 7), forgets, is("d1 ECONNABORTED"), asks(1, "a", 10), isOwn(1), nothing,
	},
	"who asks a dead program is killed": {
		serves(1), dies(1), loses(1, 0), loses(2, 0), interrupts("d", 1), serves(2), is(attachAll(2)), interrupts("d", 2), attaches(""), nothing,
	},
	"a connection ends with those who wait on it": {
		serves(1), dies(1), loses(1, 0), asks(2, "a", 10), holds(2), ends, holds(1), interrupts("s", 2), serves(2), nothing, passes(time.Minute), nothing,
	},
	"a request in a view that was not attached has all views attached again": {
		serves(1), dies(1), loses(1, 0), serves(2), attaches(""), is(attachAll(2), "d1 ESTALE"), loses(2, 12), is("d2 ESTALE"), passes(longestSweepDelay), is(attachAll(2)),
	},
	"a connection of before is told of late": {
		serves(2), dies(1), is(attachAll(2)), loses(1, 0), attaches(""), is("d1 ESTALE"),
	},
}

func tell(t *testing.T, steps ...step) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, wait: 30 * time.Second}
		w.o = newOutages(w)
		w.o.told()
		w.run(steps...)
		w.o.end()
		time.Sleep(24 * time.Hour) // nothing happens any more
	})
}

func TestOutages(t *testing.T) {
	for name, steps := range stories {
		t.Run(name, func(t *testing.T) { tell(t, steps...) })
	}
}

func TestTheMounterIsToldHowManyWait(t *testing.T) {
	counts := func(want ...string) step {
		return func(w *world) {
			synctest.Wait()
			got := slices.DeleteFunc(w.happened(), func(s string) bool { return !strings.HasSuffix(s, " wait") })
			if !slices.Equal(got, want) {
				w.t.Errorf("%q, want %q", got, want)
			}
		}
	}
	tell(t, asks(1, "a", 10), asks(2, "a", 11), counts(), passes(tellInterval), counts("2 wait"), passes(time.Minute), counts("0 wait"),
		passes(time.Minute), counts(), serves(1), asks(3, "a", 10), passes(tellInterval), counts("1 wait"), forgets, passes(time.Minute), counts())
	for _, short := range []time.Duration{0, tellInterval / 2} { // it has ended when it is told
		tell(t, waitIs(short), asks(1, "a", 10), passes(time.Minute), counts("0 wait"), asks(2, "a", 10), passes(time.Minute), counts())
	}
}

// One volume's thousands of threads do not take what others need.
func TestWhatIsHeldIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{t: t, wait: time.Hour}
		w.o = newOutages(w)
		w.o.told()
		defer w.o.end()
		hold := func(id volume.ID, n int) (refused int) {
			for i := range n {
				w.o.hold(id, "a", 1, caller{w.on("s"), uint64(id)<<32 | uint64(i)})
			}
			for _, what := range w.happened() {
				if strings.HasSuffix(what, "ENOTCONN") {
					refused++
				}
			}
			return refused
		}
		if refused := hold(one, mostHeld+10); refused != 10 {
			t.Errorf("of %d, %d are refused", mostHeld+10, refused)
		}
		if refused := hold(other, 1000); refused != 0 {
			t.Errorf("another volume: %d are refused", refused)
		}
		for id := other + 1; len(w.o.callers) < mostOfAll; id++ {
			hold(id, mostHeld)
		}
		if refused := hold(1000, fewHeld+10); refused != 10 {
			t.Errorf("when %d wait: of %d, %d are refused", mostOfAll, fewHeld+10, refused)
		}
	})
}

// A request that is held costs no more than this, in bytes.
func TestWhatARequestCosts(t *testing.T) {
	w := &world{t: t, wait: time.Hour}
	o := newOutages(w)
	defer o.end()
	o.told()
	live := func() uint64 {
		runtime.GC()
		var stats runtime.MemStats
		runtime.ReadMemStats(&stats)
		return stats.HeapAlloc
	}
	const n = 40_000
	before, on := live(), w.on("s")
	for id := range uint64(n) {
		o.hold(one+volume.ID(id/mostHeld), "a", 1, caller{on, id})
	}
	if got := (live() - before) / n; got > 200 {
		t.Errorf("%d bytes", got)
	} else {
		t.Logf("%d bytes", got)
	}
	if len(o.callers) != n {
		t.Errorf("%d are held", len(o.callers))
	}
}
