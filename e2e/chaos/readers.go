package main

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"example.com/pod-info-fuse/e2e/internal/steady"
)

// A reader repeats its operations without pause.
type reader struct {
	name       string
	operations []operation
	apart      bool // reads no volume, or does more: how long that takes is no stall

	took *steady.Times // of each operation; nil: nobody asks

	replacements *replacements
	pause        *atomic.Int64

	mu     sync.Mutex // guards what follows
	done   int
	doing  string
	since  time.Time // when it began what it is doing; zero: nothing
	number uint32    // of replacements, then
	stalls stalls
	hung   bool // and reported so
}

// readers are all readers of a trial.
type readers struct {
	all          []*reader
	began        time.Time
	ended        *atomic.Bool
	left         *sync.WaitGroup
	replacements *replacements
	pause        *atomic.Int64 // after each operation, in nanoseconds
}

// apartPause is how many times longer than readers those programs pause that do more than read.
const apartPause = 20

// startReaders lets readers begin.
func startReaders(all []*reader, report *report) readers {
	r := readers{all: all, began: time.Now(), ended: new(atomic.Bool), left: new(sync.WaitGroup), replacements: new(replacements), pause: new(atomic.Int64)}
	// Or they would wait for their turns in Go's scheduler, and not only for the driver.
	runtime.GOMAXPROCS(len(all) + runtime.NumCPU())
	for _, one := range all {
		one.replacements, one.pause = r.replacements, r.pause
		r.left.Go(func() { one.run(r.ended, report) })
	}
	go r.watch(report)
	return r
}

func (r *reader) run(ended *atomic.Bool, report *report) {
	for i := 0; !ended.Load(); i++ {
		o := r.operations[i%len(r.operations)]
		r.begin(o.name)
		err := r.took.Of(o.do)
		r.end()
		if err != nil {
			report.readerFailed(fmt.Errorf("%s: %s: %w", r.name, o.name, err))
			time.Sleep(time.Millisecond) // a dead volume fails very fast
		}
		pause := time.Duration(r.pause.Load())
		if r.apart {
			pause *= apartPause
		}
		time.Sleep(pause)
	}
}

func (r *reader) begin(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.doing, r.since, r.number = name, time.Now(), r.replacements.number()
}

func (r *reader) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stalls = r.stalled()
	r.done++
	r.since = time.Time{}
}

// stalled are the longest stalls so far, the present one included. The caller has locked.
func (r *reader) stalled() stalls {
	if r.since.IsZero() {
		return r.stalls
	}
	return r.stalls.with(stall{r.doing, time.Since(r.since)}, r.replacements.since(r.number))
}

// hangTimeout is how long a reader may be without progress before it is reported. It waits for some
// seconds where a process hangs, and the machine may stand still besides.
var hangTimeout = 30 * time.Second

// watch reports readers that hang, while that goes on: nothing else may tell
// about a reader that no signal can reach.
func (r readers) watch(report *report) {
	for ; !r.ended.Load(); time.Sleep(time.Second) {
		for _, one := range r.all {
			one.mu.Lock()
			if !one.hung && !one.since.IsZero() && time.Since(one.since) > hangTimeout {
				one.hung = true
				report.violation("%s hangs for more than %v: %s", one.name, hangTimeout, one.doing)
			}
			one.mu.Unlock()
		}
	}
}

// progress waits until every reader has finished operations that it began after
// the call, but for those that do more than to read.
func (r readers) progress(ctx context.Context, limit time.Duration) error {
	// One may be under way, and its answer, too.
	const enough = 3
	before := r.counts()
	return await(ctx, limit, func() error {
		for i, count := range r.counts() {
			if count < before[i]+enough && !r.all[i].apart {
				return fmt.Errorf("%s makes no progress", r.all[i].name)
			}
		}
		return nil
	})
}

func (r readers) counts() []int {
	counts := make([]int, len(r.all))
	for i, one := range r.all {
		one.mu.Lock()
		counts[i] = one.done
		one.mu.Unlock()
	}
	return counts
}

// stop ends the readers, and returns an error if some do not end.
func (r readers) stop(limit time.Duration) error {
	r.ended.Store(true)
	none := make(chan bool)
	go func() {
		r.left.Wait()
		close(none)
	}()
	select {
	case <-none:
		return nil
	case <-time.After(limit):
		return fmt.Errorf("readers do not end within %v", limit)
	}
}
