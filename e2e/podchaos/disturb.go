package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// disturbances are what is done to the driver, or beside, while programs are killed.
var disturbances = map[string]func(*trial, context.Context, int) error{
	"pair":    (*trial).killOfPair,
	"hang":    (*trial).hangOfPair,
	"upgrade": (*trial).upgrade,
	"mounter": (*trial).killMounter,
	"storm":   (*trial).storm,
	"silent":  (*trial).silent,
}

// disturbed is what goes on meanwhile.
type disturbed struct {
	end  context.CancelFunc
	done sync.WaitGroup
}

// disturb does away with processes of the driver, one after the other, if that was asked for.
func (t *trial) disturb(ctx context.Context) *disturbed {
	ctx, cancel := context.WithCancel(ctx)
	d := &disturbed{end: cancel}
	do := disturbances[t.with]
	if do == nil {
		return d
	}
	d.done.Go(func() {
		times := 0
		var took []time.Duration
		defer func() { t.report.note("--with %s: %d times; complete again %s", t.with, times, spread(took)) }()
		for { // the first time at once: a single kill would be over before
			began := time.Now()
			// What has begun is ended: both of the pair, say, are there again.
			if err := do(t, context.WithoutCancel(ctx), times); err != nil {
				t.report.violation("--with %s, the %d. time: %v", t.with, times+1, err)
				return
			}
			took = append(took, time.Since(began))
			times++
			if sleep(ctx, 500*time.Millisecond) != nil {
				return
			}
		}
	})
	return d
}

func (d *disturbed) stop() {
	d.end()
	d.done.Wait()
}

func (t *trial) killOfPair(ctx context.Context, times int) error {
	return t.signalPair(ctx, times%2 == 0, unix.SIGKILL)
}

func (t *trial) hangOfPair(ctx context.Context, _ int) error {
	return t.signalPair(ctx, true, unix.SIGSTOP)
}

func (t *trial) signalPair(ctx context.Context, ofActive bool, signal unix.Signal) error {
	s, err := t.rig.awaitPair(ctx, 0)
	if err != nil {
		return err
	}
	active, standby := s.pids()
	victim := standby
	if ofActive {
		victim = active
	}
	if err := t.rig.signal(victim, signal); err != nil {
		return err
	}
	_, err = t.rig.awaitPair(ctx, victim)
	return err
}

// upgrade installs the other binary and the first one in turn. The call-out init makes the
// driver notice, as the kubelet would after a change in the plugin's directory.
func (t *trial) upgrade(ctx context.Context, _ int) error {
	before, err := t.rig.awaitPair(ctx, 0)
	if err != nil {
		return err
	}
	mounters := t.rig.mounters()
	defer func() { t.upgrades++ }()
	if err := t.rig.replace([]string{t.other, t.binary}[t.upgrades%2]); err != nil {
		return err
	}
	if err := t.rig.callOut("init"); err != nil {
		return err
	}
	active, _ := before.pids()
	if _, err := t.rig.awaitPair(ctx, active); err != nil {
		return err
	}
	_, err = t.awaitMounters(ctx, mounters...)
	return err
}

// killMounter kills the mounter or its spare.
func (t *trial) killMounter(ctx context.Context, times int) error {
	found, err := t.awaitMounters(ctx)
	if err != nil {
		return err
	}
	victim := found[times%2]
	if err := t.rig.signal(victim, unix.SIGKILL); err != nil {
		return err
	}
	_, err = t.awaitMounters(ctx, victim)
	return err
}

// amidAttach is the disturbance that strikes while a program that was killed comes back: each of
// the mounter's steps is somewhere in that time.
const amidAttach = "attach"

// killMounterAmid kills the mounter, if that was asked for, at any time of those steps.
func (t *trial) killMounterAmid() (victim int, err error) {
	if t.with != amidAttach {
		return 0, nil
	}
	time.Sleep(t.chance(60 * time.Millisecond))
	found := t.rig.mounters()
	if len(found) < 2 {
		return 0, fmt.Errorf("the mounters are %v", found)
	}
	// The first is the oldest, which works; then its spare, and perhaps a child that has not
	// executed anything yet.
	return found[0], t.rig.signal(found[0], unix.SIGKILL)
}

// awaitMounters waits until there are two, and none of those before.
func (t *trial) awaitMounters(ctx context.Context, ended ...int) (found []int, err error) {
	err = await(ctx, stepTimeout, func() error {
		found = t.rig.mounters()
		if len(found) != 2 || slices.ContainsFunc(found, func(pid int) bool { return slices.Contains(ended, pid) }) {
			return fmt.Errorf("the mounters are %v, after %v", found, ended)
		}
		return nil
	})
	return found, err
}
