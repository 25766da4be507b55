package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// seen is what the load of a container has seen so far: a line of its output, ten times a second.
type seen struct {
	Now        int64 `json:"now"` // of CLOCK_MONOTONIC in nanoseconds, which is one for the machine
	Operations int   `json:"operations"`
	// Oldest is when what a thread is doing was begun, of the thread that began first.
	Oldest int64  `json:"oldest"`
	Doing  string `json:"doing"`
	// Paths and Open count the errors, as "stat ENOTCONN": of operations on a path, which must
	// not fail, and on what was open.
	Paths map[string]int `json:"paths,omitempty"`
	Open  map[string]int `json:"open,omitempty"`
	// Repeated counts changes that were under way when their program died: what they make exists
	// already, or what they remove is gone, as the kernel asks again; or they were to be repeated.
	Repeated map[string]int `json:"repeated,omitempty"`
	// Failures are the first errors of each kind, in full; but ESTALE of what was open is none.
	Failures []failure `json:"failures,omitempty"`
	// Slow are the operations that took long since the line before; of those of one moment, one
	// and the pulse.
	Slow []slow `json:"slow,omitempty"`
	// Beat is how long the last pulse took, in nanoseconds.
	Beat int64 `json:"beat"`
	// Took is, in nanoseconds, how long it took to open, to read and to close a small file, each
	// time since the line before, in a load with pauses.
	Took []time.Duration `json:"took,omitempty"`
	Last bool            `json:"last,omitempty"` // every thread has ended
}

// slow is an operation of more than slowest.
type slow struct {
	Name string `json:"name"`
	From int64  `json:"from"`
	To   int64  `json:"to"`
}

// failure is an operation that failed.
type failure struct {
	Kind string `json:"kind"` // as of the counts
	Text string `json:"text"`
	Open bool   `json:"open,omitempty"` // it was of what was open
	From int64  `json:"from"`
	To   int64  `json:"to"`
}

// mostFailures is how many of each kind are told in full: those of a control are thousands.
const mostFailures = 10

const slowest = 3 * time.Millisecond

// A load is the reader in a container.
type load struct {
	roots   []root
	links   bool
	writes  bool
	pause   time.Duration // of a thread, after what it does
	threads []*thread
	ended   atomic.Bool
	done    sync.WaitGroup
	beat    atomic.Int64 // see seen

	mu       sync.Mutex // guards what follows
	paths    map[string]int
	open     map[string]int
	repeated map[string]int
	failures []failure
	slow     map[int64]slow
	took     []time.Duration
}

// root is a mount of the volume, and the directory of the tree that it begins with.
type root struct{ path, prefix string }

// thread is one of the threads, which operates in a system call most of the time.
type thread struct {
	*load
	number int
	random *rand.Rand
	count  atomic.Int64
	since  atomic.Int64 // 0: between two
	doing  atomic.Pointer[string]
}

// runLoad operates until it is told to end, and returns the process's exit status.
func runLoad(args []string) int {
	l := &load{paths: map[string]int{}, open: map[string]int{}, repeated: map[string]int{}, slow: map[int64]slow{}}
	flags := flag.NewFlagSet("podchaos load", flag.ExitOnError)
	threads := flags.Int("threads", 12, "")
	roots := flags.String("roots", "", "PATH=PREFIX,...")
	flags.BoolVar(&l.links, "links", false, "")
	flags.BoolVar(&l.writes, "writes", false, "")
	flags.DurationVar(&l.pause, "pause", 0, "")
	_ = flags.Parse(args)
	for text := range strings.SplitSeq(*roots, ",") {
		path, prefix, _ := strings.Cut(text, "=")
		l.roots = append(l.roots, root{path, prefix})
	}
	told := make(chan os.Signal, 1)
	signal.Notify(told, unix.SIGTERM, unix.SIGINT)
	// Or they would wait for their turns in Go's scheduler, and not only for the program.
	runtime.GOMAXPROCS(*threads + 4)
	for i := range *threads {
		l.start(i, rested(l.operatePaths(i)))
	}
	l.start(*threads, l.readOpenFile)
	l.start(*threads+1, l.listOpenDirectory)
	l.start(*threads+2, (*thread).pulse)
	if l.pause > 0 {
		l.start(*threads+3, rested(l.readTimed))
	}
	for {
		select {
		case <-told:
			return l.end()
		case <-time.After(100 * time.Millisecond):
			l.tell(false)
		}
	}
}

func (l *load) start(number int, do func(*thread)) {
	t := &thread{load: l, number: number, random: rand.New(rand.NewPCG(uint64(number), uint64(os.Getpid())))}
	l.threads = append(l.threads, t)
	l.done.Go(func() {
		runtime.LockOSThread()
		for !l.ended.Load() {
			do(t)
		}
	})
}

// rest leaves the machine time.
func (t *thread) rest() { time.Sleep(t.pause) }

// rested has a thread rest after each time.
func rested(do func(*thread)) func(*thread) {
	return func(t *thread) {
		do(t)
		t.rest()
	}
}

// end waits for the threads: nobody else could tell that one hangs.
func (l *load) end() int {
	l.ended.Store(true)
	none := make(chan bool)
	go func() {
		l.done.Wait()
		close(none)
	}()
	select {
	case <-none:
		l.tell(true)
		return 0
	case <-time.After(stepTimeout):
		l.tell(false)
		return 1
	}
}

// now is CLOCK_MONOTONIC, which the host's processes see the same.
func now() int64 {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &t) // cannot fail
	return t.Nano()
}

func (l *load) tell(last bool) {
	s := seen{Now: now(), Oldest: now(), Beat: l.beat.Load(), Last: last}
	for _, t := range l.threads {
		s.Operations += int(t.count.Load())
		if since := t.since.Load(); since != 0 && since < s.Oldest {
			s.Oldest, s.Doing = since, *t.doing.Load()
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	s.Paths, s.Open, s.Repeated, s.Failures = l.paths, l.open, l.repeated, l.failures
	for _, one := range l.slow {
		s.Slow = append(s.Slow, one)
	}
	clear(l.slow)
	s.Took, l.took = l.took, nil
	line, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	os.Stdout.Write(append(line, '\n'))
}

// operate does one operation on a path, and counts its error.
func (t *thread) operate(name, path string, do func(path string) error) error {
	began := now()
	err := t.timed(name, func() error { return do(path) })
	if err != nil {
		t.failed(false, name, path, err, began)
	}
	return err
}

// operateOpen does one on an open file.
func (t *thread) operateOpen(name, path string, do func() error) error {
	began := now()
	err := t.timed(name, do)
	if err != nil {
		t.failed(true, name, path, err, began)
	}
	return err
}

func (t *thread) timed(name string, do func() error) error {
	began := now()
	t.doing.Store(&name)
	t.since.Store(began)
	err := do()
	t.since.Store(0)
	t.count.Add(1)
	ended := now()
	if time.Duration(ended-began) > slowest {
		moment := began / int64(10*time.Millisecond)
		if name == pulse {
			moment = -began // none is left out
		}
		t.mu.Lock()
		if known, ok := t.slow[moment]; !ok || known.To-known.From < ended-began {
			t.slow[moment] = slow{name, began, ended}
		}
		t.mu.Unlock()
	}
	return err
}

// failed counts an error, of what was open or of a path.
func (t *thread) failed(open bool, name, path string, err error, began int64) {
	ended, key, where := now(), name+" "+errnoName(err), t.paths
	if open {
		where = t.open
	}
	t.mu.Lock()
	where[key]++
	if where[key] <= mostFailures && !(open && errors.Is(err, unix.ESTALE)) {
		t.failures = append(t.failures, failure{key, fmt.Sprintf("%s %s: %v", name, path, err), open, began, ended})
	}
	t.mu.Unlock()
	time.Sleep(time.Millisecond) // a dead mount fails very fast
}

func (t *thread) again(key string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.repeated[key]++
}

func errnoName(err error) string {
	var errno unix.Errno
	if errors.As(err, &errno) {
		return unix.ErrnoName(errno)
	}
	return "WRONG"
}
