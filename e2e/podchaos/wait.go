package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/e2e/stopwatch"
)

// promisedTimeout is how long an unmount may take, and the end of a waiter that is killed, without
// the time in which the machine stands still. The median of each kind is held to it: on a machine
// with thirty processes to run, one of some dozens is held up for longer by what no watch sees, as
// by the kernel's lock of all mounts.
var promisedTimeout = time.Second

// promptly is how long anything that must not wait may take, on a machine that is busy: less than
// who waits for something in vain.
func promptly() time.Duration { return max(promisedTimeout, 5*time.Second) }

// judgePromised judges the times of what is promised, by its kinds.
func (t *trial) judgePromised() {
	for _, kind := range slices.Sorted(maps.Keys(t.took)) {
		t.report.note("%s: %s", kind, spread(t.took[kind]))
		if usual := medianOf(t.took[kind]); usual > promisedTimeout {
			t.report.violation("%s: the median is %v, and %v are promised", kind, usual, promisedTimeout)
		}
	}
}

// wait kills some of the readers that wait for a program. The others read when it comes.
func (t *trial) wait(ctx context.Context) {
	t.report.check(t.waitAndKill(ctx))
	t.judgePromised()
	t.report.check(t.waitInVain())
}

// waiters are processes that look at a volume which nobody serves.
type waiters struct {
	*trial
	app *container
	all []*beginner
}

// perStep is how many are killed at once.
const perStep = 6

func (t *trial) waitAndKill(ctx context.Context) error {
	one := t.programs[0]
	p, err := t.newPod(one)
	if err != nil {
		return err
	}
	defer func() { t.report.check(p.remove("data", "data-server")) }()
	if err := p.mountVolumes("5m"); err != nil {
		return err
	}
	w := &waiters{trial: t}
	if w.app, err = p.start("app", []string{"sleep", "infinity"}, p.appMounts(), nil); err != nil {
		return err
	}
	if err := w.startAll((3 + 3*t.kills) * perStep); err != nil {
		return err
	}
	w.killSome("before a take-over")
	for range t.kills {
		if err := w.overKill(ctx); err != nil {
			return err
		}
		if err := w.overUpgrade(ctx); err != nil {
			return err
		}
		if err := w.overMounter(ctx); err != nil {
			return err
		}
	}
	w.killSome("after all take-overs")
	server, err := p.startServer(t.rig.sources, one, t.by[0])
	if err != nil {
		return err
	}
	if err := w.awaitAll(); err != nil {
		return fmt.Errorf("%w; the program: %s", err, server.said())
	}
	return nil
}

func (w *waiters) startAll(n int) error {
	for i := range n {
		path := []string{"/data/", "/data-ro/", "/tmp/outer/data/"}[i%3] + fileName(i%treeFiles)
		b, err := w.app.exec(fmt.Sprint(i), "/podchaos", "look", "--path", path)
		if err != nil {
			return err
		}
		w.all = append(w.all, b)
	}
	// The runtime of Go, which these programs are in, handles it. It ends no wait.
	for _, b := range w.all {
		if err := unix.Kill(b.pid, unix.SIGURG); err != nil {
			return err
		}
	}
	return w.areHeld()
}

// areHeld demands that none has got an answer.
func (w *waiters) areHeld() error {
	for _, b := range w.all {
		select {
		case <-b.left:
			return fmt.Errorf("process %d did not wait: %s", b.pid, &b.out)
		default:
		}
	}
	return nil
}

// killSome kills some, at once, or most of them would not meet a take-over: each is gone promptly.
func (w *waiters) killSome(when string) {
	some := w.all[:perStep]
	w.all = w.all[perStep:]
	kind := "waiters killed " + when
	times := make([]time.Duration, len(some))
	var done sync.WaitGroup
	for i, b := range some {
		done.Go(func() {
			watch := stopwatch.Start()
			err := b.kill()
			took, late := watch.Stop()
			if err == nil && took > promptly() {
				err = fmt.Errorf("process %d took %v to end, and the machine stood still for %v", b.pid, took, late)
			}
			if err != nil {
				w.report.violation("%s: %v", kind, err)
			}
			times[i] = took
		})
	}
	done.Wait()
	w.took[kind] = append(w.took[kind], times...)
}

// overKill kills the active process, and some readers that wait meanwhile.
func (w *waiters) overKill(ctx context.Context) error {
	s, err := w.rig.awaitPair(ctx, 0)
	if err != nil {
		return err
	}
	active, _ := s.pids()
	if err := w.rig.signal(active, unix.SIGKILL); err != nil {
		return err
	}
	w.killSome("when the active is")
	_, err = w.rig.awaitPair(ctx, active)
	return errors.Join(err, w.areHeld())
}

// overUpgrade does the same with a planned take-over, if there is another version.
func (w *waiters) overUpgrade(ctx context.Context) error {
	if w.other == "" {
		w.killSome("between take-overs")
		return nil
	}
	done := make(chan error, 1)
	go func() { done <- errors.Join(w.upgrade(ctx, 0), w.upgrade(ctx, 0)) }()
	w.killSome("during upgrades")
	return errors.Join(<-done, w.areHeld())
}

// overMounter kills the mounter.
func (w *waiters) overMounter(ctx context.Context) error {
	if err := w.killMounter(ctx, 0); err != nil {
		return err
	}
	w.killSome("after the mounter")
	return w.areHeld()
}

// awaitAll waits until every reader that is left has read.
func (w *waiters) awaitAll() error {
	deadline := time.After(stepTimeout)
	stale := 0
	for _, b := range w.all {
		select {
		case <-b.left:
		case <-deadline:
			return fmt.Errorf("process %d (%c) waits though the program runs", b.pid, stateOf(b.pid))
		}
		var l looked
		err := json.Unmarshal(b.out.Bytes(), &l)
		switch {
		case err == nil && l.Error == "ESTALE" && w.staleAllowed:
			stale++
		case err != nil || l.Error != "":
			w.report.violation("who waited got %q (%v)", &b.out, err)
		}
	}
	w.report.note("waiters that read: %d", len(w.all)-stale)
	if w.staleAllowed {
		w.report.note("waiters that got ESTALE: %d", stale)
	}
	return nil
}

// waitInVain looks at volumes that nobody ever serves: for as long as the option says, from the
// first look, and then no more.
func (t *trial) waitInVain() error {
	const long = 10 * time.Second
	for _, wait := range []time.Duration{0, long} {
		p, err := t.rig.newPod(t.uid)
		if err != nil {
			return err
		}
		defer func() { t.report.check(p.remove("data", "data-server")) }()
		if err := p.mountVolumes(wait.String()); err != nil {
			return err
		}
		app, err := p.start("app", []string{"sleep", "infinity"}, p.appMounts(), nil)
		if err != nil {
			return err
		}
		for i, want := range []time.Duration{wait, 0} {
			b, err := app.exec(fmt.Sprint(i), "/podchaos", "look", "--path", "/data/"+fileName(0))
			if err != nil {
				return err
			}
			select {
			case <-b.left:
			case <-time.After(stepTimeout):
				return fmt.Errorf("process %d waits for ever, with wait %v", b.pid, wait)
			}
			var l looked
			if err := json.Unmarshal(b.out.Bytes(), &l); err != nil {
				return fmt.Errorf("a look gave %q: %w", &b.out, err)
			}
			if took := time.Duration(l.To - l.From); l.Error != "ENOTCONN" || took < want-100*time.Millisecond || want == 0 && took > long {
				t.report.violation("with wait %v, look %d gave %q after %v", wait, i+1, l.Error, took)
			}
		}
	}
	return nil
}
