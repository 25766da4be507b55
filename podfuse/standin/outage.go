package standin

import (
	"sync"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/podfuse/wire"
	"example.com/pod-info-fuse/survive/volume"
)

// outages are what this process knows of the client volumes: who serves each, who waits for it,
// and what is being done so that they need not.
//
//	           served           died           since + wait
//	Waiting ──────────> Served ──────> Dead ────────────────> Gone
//	   │                   ^            │                       │
//	   │                   └────────────┴──────── served ───────┤
//	   └──────── the first who waits + wait ────────────────────┘
//
// A request is held while its volume is not Served. It gets ENOTCONN when the volume is Gone. Once
// the volume is Served, the request gets ESTALE as soon as the program's mount is in the reader's
// view, and never before: the kernel then walks the path again, with LOOKUP_REVAL, but only once
// (fs/namei.c, retry_estale). The second walk must not end in the mount of a dead program. So the
// mounter reports a mount only when it is certain that the program lives.
//
// Outages are driven by requests of the stand-ins (hold), by requests on connections of dead
// programs (lose), and by the mounter's events. They never wait, and their env must not wait
// either.
type outages struct {
	env

	mu      sync.Mutex // guards what follows
	ended   bool
	knows   bool // the mounter has told everything; before, nobody is told that a volume is gone
	volumes map[volume.ID]*outage
	callers map[caller]*view
	orders  map[uint64]*view // that are under way, by their tickets
	answers []answer         // that are due when mu is free
	dirty   map[*outage]bool // that are to be told: they began, or how many wait has changed
	telling *time.Timer
}

// env is what the outages ask for.
type env interface {
	// order sends an order to the mounter.
	order(wire.Order)
	ticket() uint64
	// timeout returns how long requests wait in an outage of a volume. After an error, the next
	// call may return another timeout.
	timeout(volume.ID) (time.Duration, error)
	log(format string, args ...any)
}

// caller is a request that is held: its id, and its connection.
type caller struct {
	on connection
	id uint64
}

type connection interface {
	// fail answers a request, which the kernel may have given up already.
	fail(id uint64, status fuse.Status)
}

type answer struct {
	caller
	status fuse.Status
}

// outage is the state of a client volume, also while it is served.
type outage struct {
	*outages
	id         volume.ID
	generation uint64 // of the last program that has served; 0: none
	served     bool
	since      time.Time // not served, and somebody waits or has waited; zero: not
	wait       time.Duration
	expiry     *time.Timer
	logged     bool      // that it is gone or full
	said       time.Time // when that was logged last, of this outage or another one

	held     int // requests
	views    map[string]*view
	underWay int // orders

	// The requests on connections of dead programs. They can be in any view of the volume. One
	// order without a process attaches the mount in all views.
	dead   map[connection]bool
	lost   *view
	sweeps int         // that there were since an outage began or ended
	pause  *time.Timer // until the next one
	swept  uint64      // the generation that is attached in all views; 0: none is
	copied bool        // there may be another view
	copies *time.Timer // until that is looked for
}

// view is a mount namespace with mounts of a volume, and the requests that wait in it.
type view struct {
	*outage
	key        string
	callers    map[caller]uint32 // and their threads
	ticket     uint64            // of the order to attach it; 0: none
	generation uint64            // that is being attached
	answered   *time.Timer       // the order's limit
	failures   int
	rest       *time.Timer // until the next attempt
}

const (
	// toldTimeout is how long a process that begins to serve waits for the mounter's first report.
	// Until then it does not know which volumes are served: on a machine that stands still for
	// seconds, requests for a volume with a short wait would get an error. It does not wait where
	// there is no mounter.
	toldTimeout = orderTimeout
	// atOnce is how many views of one volume are attached at the same time. The order for all views
	// counts as one of them, and waits for none.
	atOnce = 4
	// orderTimeout is how long an order may take. The mounter's own limits are shorter: no answer
	// means that another mounter has taken over.
	orderTimeout = 10 * time.Second
	// attempts is how often attaching a view is tried. firstRetryDelay is the pause after the first
	// attempt, and each pause is four times longer than the one before: two seconds in all.
	attempts        = 6
	firstRetryDelay = 6 * time.Millisecond
	// firstSweepDelay and longestSweepDelay bound the pause between two orders to attach in all
	// views of a volume. A hostile pod can make such orders necessary again and again.
	firstSweepDelay   = 2 * time.Millisecond
	longestSweepDelay = time.Second
	// copiedDelay is the pause before views are looked for that were copied when a program came
	// back. There are hardly any, and the readers that were waiting need the processors first.
	copiedDelay = 100 * time.Millisecond
	// mostHeld is how many requests of one volume are held, and mostOfAll of all, beyond which no
	// volume holds more than fewHeld. The kernel has one queue for all volumes, so that what is not
	// held must be answered: ENOTCONN. It takes thousands of threads of one pod.
	mostHeld  = 4096
	mostOfAll = 65536
	fewHeld   = 256
	// tellInterval is the time between two reports to the mounter of how many requests wait.
	tellInterval = time.Second
	// sayInterval is the shortest time between two lines in the log about one volume.
	sayInterval = time.Minute
)

func newOutages(env env) *outages {
	o := &outages{env: env, volumes: map[volume.ID]*outage{}, callers: map[caller]*view{},
		orders: map[uint64]*view{}, dirty: map[*outage]bool{}}
	o.after(toldTimeout, o.know)
	return o
}

// told: the mounter has told this process everything.
func (o *outages) told() { o.do(o.know) }

func (o *outages) know() {
	if o.knows {
		return
	}
	o.knows = true
	for _, v := range o.volumes {
		if v.gone() {
			v.expire()
		}
	}
}

// do changes something under the lock, and gives the answers that are due without it: waking
// thousands of threads takes milliseconds, in which other volumes must not wait.
func (o *outages) do(change func()) {
	o.mu.Lock()
	if o.ended {
		o.mu.Unlock()
		return
	}
	change()
	answers := o.answers
	o.answers = nil
	if len(o.dirty) > 0 && o.telling == nil {
		o.telling = o.after(tellInterval, o.tell)
	}
	o.mu.Unlock()
	for _, a := range answers {
		a.on.fail(a.id, a.status)
	}
}

// after changes something later, unless end was called meanwhile.
func (o *outages) after(d time.Duration, change func()) *time.Timer {
	return time.AfterFunc(d, func() { o.do(change) })
}

// tell reports to the mounter how many requests wait for each volume whose outage began, or whose
// number has changed. The number is 0 if the outage's timeout is already over.
func (o *outages) tell() {
	o.telling = nil
	for v := range o.dirty {
		o.order(wire.Order{Kind: wire.Counts, Volume: v.id, Waiting: v.held})
	}
	clear(o.dirty)
}

// end forgets everything. The process that serves next asks the mounter for events anew, and the
// kernel gives it the requests that are held.
func (o *outages) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ended = true
	o.volumes, o.callers, o.orders = nil, nil, nil
}

func (o *outages) volume(id volume.ID) *outage {
	v := o.volumes[id]
	if v == nil {
		v = &outage{outages: o, id: id, wait: -1, views: map[string]*view{}, dead: map[connection]bool{}}
		v.lost = v.newView("")
		o.volumes[id] = v
	}
	return v
}

func (v *outage) newView(key string) *view {
	return &view{outage: v, key: key, callers: map[caller]uint32{}}
}

// state returns a volume's state for a client of the pods' socket, and whether this process knows
// it.
func (o *outages) state(id volume.ID) (state wire.State, known bool) {
	state = wire.Waiting
	o.do(func() {
		if v := o.volumes[id]; v != nil {
			state = v.state()
		}
		known = o.knows || state == wire.Served
	})
	return state, known
}

func (v *outage) state() wire.State {
	switch {
	case v.served:
		return wire.Served
	case v.gone():
		return wire.Gone
	case v.generation > 0:
		return wire.Dead
	}
	return wire.Waiting
}

// gone tells whether the outage has lasted longer than the volume's timeout.
func (v *outage) gone() bool {
	return v.knows && !v.served && !v.since.IsZero() && time.Since(v.since) >= v.timeout()
}

func (v *outage) timeout() time.Duration {
	if v.wait < 0 {
		wait, err := v.outages.timeout(v.id)
		if err != nil {
			return wait
		}
		v.wait = wait
	}
	return v.wait
}

// begin begins an outage, if there is none, and starts its timeout.
func (v *outage) begin(since time.Time) {
	if v.since.IsZero() {
		v.since = since
		v.dirty[v] = true
	}
	if v.expiry == nil {
		v.expiry = v.after(max(0, time.Until(v.since.Add(v.timeout()))), v.expire)
	}
}

// expire ends an outage's waiting, unless its timeout could not be read when it began.
func (v *outage) expire() {
	if v.expiry = nil; v.gone() {
		v.say("volume %v: nobody has served it for %v, and who waits gets an error, %d requests now; see the log of the pod's program", v.id, v.timeout(), v.held)
		v.failAll(fuse.Status(unix.ENOTCONN))
	} else if v.knows && !v.since.IsZero() {
		v.begin(v.since)
	}
}

// say logs a line once in an outage, and once in sayInterval: a pod can begin outages without an
// end.
func (v *outage) say(format string, args ...any) {
	if v.logged || time.Since(v.said) < sayInterval {
		return
	}
	v.logged, v.said = true, time.Now()
	v.log(format, args...)
}

func (v *outage) failAll(status fuse.Status) {
	for _, w := range v.views {
		v.answerAll(w, status)
		v.tidy(w)
	}
	v.answerAll(v.lost, status)
}

// hold holds a request that a thread makes in a view, until it can be answered. It may be answered
// before hold returns.
func (o *outages) hold(id volume.ID, key string, thread uint32, c caller) {
	o.do(func() {
		v := o.volume(id)
		if !v.admit(c) {
			return
		}
		w := v.views[key]
		if w == nil {
			w = v.newView(key)
			v.views[key] = w
		}
		v.add(w, c, thread)
		if v.served {
			v.attach(w)
		}
	})
}

// lose holds a request on the connection of a dead program. The thread is 0 if it is not known.
// waits tells that the request waits for the next program, and again that it waited before.
func (o *outages) lose(id volume.ID, thread uint32, c caller) (waits, again bool) {
	o.do(func() {
		if again = o.callers[c] != nil; again {
			return
		}
		v := o.volume(id)
		if !v.admit(c) {
			return
		}
		if v.served && v.swept == v.generation {
			// It may also be in a view that was copied (unshare(2)) just before it was attached, or
			// whose one process executed something just then.
			v.answers = append(v.answers, answer{c, fuse.Status(unix.ESTALE)})
			if v.copies == nil {
				v.copies = v.after(copiedDelay, func() {
					v.copies, v.copied = nil, true
					v.sweep()
				})
			}
			return
		}
		v.add(v.lost, c, thread)
		if v.served {
			v.sweep()
		}
		waits = !v.served
	})
	return waits, again
}

// answerOwn answers a request of the program's own container, if it waits for the next program.
func (o *outages) answerOwn(id volume.ID, c caller) {
	o.do(func() {
		if v := o.volumes[id]; v != nil && !v.served && o.callers[c] == v.lost {
			v.remove(v.lost, c)
			v.answers = append(v.answers, answer{c, fuse.Status(unix.ESTALE)})
		}
	})
}

// admit tells whether a request is to be held, and answers it if not.
func (v *outage) admit(c caller) bool {
	if !v.served && !v.gone() {
		v.begin(time.Now())
	}
	full := v.held >= mostHeld || v.held >= fewHeld && len(v.outages.callers) >= mostOfAll
	if full {
		v.say("volume %v: %d requests wait for it, and no more can", v.id, v.held)
	}
	if full || v.gone() {
		v.answers = append(v.answers, answer{c, fuse.Status(unix.ENOTCONN)})
		return false
	}
	return true
}

func (v *outage) add(w *view, c caller, thread uint32) {
	w.callers[c] = thread
	v.outages.callers[c] = w
	v.held++
	v.dirty[v] = true
}

func (v *outage) remove(w *view, c caller) {
	delete(w.callers, c)
	delete(v.outages.callers, c)
	v.held--
	v.dirty[v] = true
}

// answerAll answers all requests of a view.
func (v *outage) answerAll(w *view, status fuse.Status) {
	for c := range w.callers {
		v.remove(w, c)
		v.answers = append(v.answers, answer{c, status})
	}
}

// threadOf returns the thread that waits for a request, 0 if the request is not held, and how many
// requests wait.
func (o *outages) threadOf(c caller) (thread uint32, waiting int) {
	o.do(func() {
		if w := o.callers[c]; w != nil {
			thread, waiting = w.callers[c], len(o.callers)
		}
	})
	return thread, waiting
}

// interrupted forgets a request that was answered because of a signal.
func (o *outages) interrupted(c caller) {
	o.do(func() {
		if w := o.callers[c]; w != nil {
			w.remove(w, c)
			w.tidy(w)
		}
	})
}

// ends forgets the requests of a connection that has ended: the kernel has answered them.
func (o *outages) ends(id volume.ID, on connection) {
	o.do(func() {
		v := o.volumes[id]
		if v == nil {
			return
		}
		delete(v.dead, on)
		for c := range v.lost.callers {
			if c.on == on {
				v.remove(v.lost, c)
			}
		}
	})
}

// tidy forgets a view without requests and orders.
func (v *outage) tidy(w *view) {
	if len(w.callers) > 0 || w.ticket != 0 || w.rest != nil || v.views[w.key] != w {
		return
	}
	delete(v.views, w.key)
}

// isServed is called when a program serves a volume.
func (o *outages) isServed(id volume.ID, generation uint64) {
	o.do(func() {
		v := o.volume(id)
		if generation < v.generation || generation == v.generation && (v.served || !v.since.IsZero()) {
			return // an older event
		}
		v.change(true)
		v.generation = generation
		v.attachViews()
		if len(v.dead) > 0 {
			v.sweep()
		}
	})
}

// change begins or ends an outage.
func (v *outage) change(served bool) {
	v.served, v.since, v.logged = served, time.Time{}, false
	stop(&v.expiry)
	v.sweeps = 0
	stop(&v.pause)
	stop(&v.copies)
	v.lost.failures = 0
	for _, w := range v.views {
		w.failures = 0
	}
}

func stop(t **time.Timer) {
	if *t != nil {
		(*t).Stop()
		*t = nil
	}
}

// died is called when a program has died. on is its connection, nil if there is none to be read.
func (o *outages) died(id volume.ID, generation uint64, since time.Time, on connection) {
	o.do(func() {
		v := o.volume(id)
		if on != nil {
			v.dead[on] = true
		}
		switch now := time.Now(); {
		case v.served && generation == v.generation, generation > v.generation && on != nil:
			if since.IsZero() || since.After(now) {
				since = now
			}
			since = now.Add(-now.Sub(since)) // by a clock that nobody sets
			v.generation = generation
			v.fall(since)
		case v.served && on != nil: // an earlier program, of which this process did not know
			v.sweep()
		}
	})
}

// fall begins an outage of a volume.
func (v *outage) fall(since time.Time) {
	v.change(false)
	v.begin(since)
}

// mute is called when the mounter is gone: until it is back, nothing is known of volumes.
func (o *outages) mute() {
	o.do(func() {
		for _, v := range o.volumes {
			if v.served {
				v.fall(time.Now())
			}
		}
	})
}

// forgotten is called when a volume was unmounted.
func (o *outages) forgotten(id volume.ID) {
	o.do(func() {
		v := o.volumes[id]
		if v == nil {
			return
		}
		v.failAll(fuse.Status(unix.ECONNABORTED))
		for ticket, w := range o.orders {
			if w.outage == v {
				w.answered.Stop()
				delete(o.orders, ticket)
			}
		}
		v.change(false)
		delete(o.volumes, id)
		delete(o.dirty, v)
	})
}

// attach has the mounter attach the program's mount in a view, or in all views for the requests of
// dead connections.
func (v *outage) attach(w *view) {
	if w.ticket != 0 || w.rest != nil || w != v.lost && (len(w.callers) == 0 || v.underWay >= atOnce) {
		return
	}
	pid := uint32(0)
	if w != v.lost {
		pid = w.anybody()
	}
	ticket := v.ticket()
	w.ticket, w.generation = ticket, v.generation
	v.orders[ticket] = w
	v.underWay++
	w.answered = time.AfterFunc(orderTimeout, func() { v.attached(wire.Event{Ticket: ticket, Error: "the mounter does not answer"}) })
	v.order(wire.Order{Kind: wire.Attach, Ticket: ticket, Volume: v.id, Generation: v.generation, PID: int(pid)})
}

// attachViews has the mounter attach the mount in the views that wait for it, as far as it may.
func (v *outage) attachViews() {
	for _, w := range v.views {
		if v.underWay >= atOnce {
			return
		}
		v.attach(w)
	}
}

// attached is called when an order to attach has ended.
func (o *outages) attached(e wire.Event) {
	o.do(func() {
		w := o.orders[e.Ticket]
		if w == nil {
			return
		}
		v := w.outage
		delete(o.orders, e.Ticket)
		w.answered.Stop()
		w.ticket = 0
		v.underWay--
		w.result(e)
		if v.served {
			v.attachViews()
		}
	})
}

// result returns what follows from the end of an order.
func (w *view) result(e wire.Event) {
	v, problem := w.outage, e.Error
	switch {
	case !v.served: // the requests go on waiting
	case w.generation != v.generation: // it died, and another one serves
		v.attach(w)
	case problem == "":
		if w == v.lost {
			v.swept = w.generation
		}
		v.finish(w, fuse.Status(unix.ESTALE))
	case len(w.callers) == 0 && w != v.lost: // no request is left
	case w.failures+1 < attempts || e.Doubted: // nobody knows whether the program lives; that ends
		w.rest = v.after(firstRetryDelay<<(2*w.failures), func() {
			if w.rest = nil; v.served {
				v.attach(w)
			}
			v.tidy(w)
		})
		if !e.Doubted {
			w.failures++
		}
		return
	case w == v.lost:
		v.say("volume %v: the program's mount cannot be attached in a container, where errors are seen: %s", v.id, problem)
		v.finish(w, fuse.Status(unix.ESTALE)) // the mount is attached in their view
	default:
		v.say("volume %v: the program's mount cannot be attached for process %d, which gets an error: %s", v.id, w.anybody(), problem)
		v.finish(w, fuse.Status(unix.ENOTCONN))
	}
	v.tidy(w)
}

// anybody returns a thread of the view, after a failure most likely another one.
func (w *view) anybody() uint32 {
	for _, thread := range w.callers {
		return thread
	}
	return 0
}

// finish answers the requests of a view.
func (v *outage) finish(w *view, status fuse.Status) {
	v.answerAll(w, status)
	w.failures = 0
}

// sweep has the mounter attach the program's mount in all views that have the mount of a dead
// program. The pauses between sweeps get longer: a process whose working directory is in a dead
// mount comes back to it for ever.
func (v *outage) sweep() {
	if v.lost.ticket != 0 || v.lost.rest != nil || v.pause != nil {
		return
	}
	if v.sweeps++; v.sweeps == 1 {
		v.attachLost()
		return
	}
	v.pause = v.after(min(firstSweepDelay<<min(v.sweeps-2, 9), longestSweepDelay), func() {
		v.pause = nil
		v.attachLost()
	})
}

// attachLost orders the mount attached in all views, for the requests of dead connections.
func (v *outage) attachLost() {
	switch {
	case !v.served:
	case v.swept != v.generation || v.copied:
		v.copied = false
		v.attach(v.lost)
	default:
		v.finish(v.lost, fuse.Status(unix.ESTALE))
	}
}
