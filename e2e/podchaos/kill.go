package main

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// A served is a program that is started again whenever it is killed: in a pod, or by root.
type served struct {
	pids func() []int // of the program
	said func() string
	stop func() error
}

// killAll kills each program, one after the other.
func (t *trial) killAll(ctx context.Context) {
	for _, one := range t.programs {
		for _, by := range t.by {
			if by == byFD && !one.fd || ctx.Err() != nil {
				continue
			}
			if err := t.killOne(ctx, one, by); err != nil {
				t.report.violation("%s, by %s: %v", one.name, by, err)
			}
		}
	}
}

// killOne kills one program under load.
func (t *trial) killOne(ctx context.Context, one program, by string) (err error) {
	p, err := t.newPod(one)
	if err != nil {
		return err
	}
	var s *served
	var r *reader
	if t.control {
		s, r, err = t.startControl(p, one)
	} else {
		s, r, err = t.startPod(p, one, by)
	}
	if s != nil {
		defer func() { t.report.check(s.stop()) }()
	}
	if err != nil {
		return err
	}
	result := row{name: one.name, by: by}
	err = t.killRounds(ctx, s, r, &result)
	if err != nil {
		err = fmt.Errorf("%w; the program: %s", err, s.said())
	}
	var stopped error
	result.seen, stopped = r.stop()
	result.beats = r.beats()
	if stopped != nil && err == nil {
		err = stopped
	}
	t.report.judge(result)
	if t.verbose {
		t.report.note("%s, by %s, said:\n%s", one.name, by, s.said())
	}
	return err
}

// newPod is a pod that has what a program serves.
func (t *trial) newPod(one program) (*pod, error) {
	p, err := t.rig.newPod(t.uid)
	if err != nil {
		return nil, err
	}
	return p, one.source(t.rig.sources, p.source)
}

// startPod starts the containers of a pod, the reader first: it waits for the program.
func (t *trial) startPod(p *pod, one program, by string) (*served, *reader, error) {
	s := &served{said: func() string { return "it did not start" }, stop: func() error { return p.remove("data", "data-server") }}
	if err := p.mountVolumes("60s"); err != nil {
		return s, nil, err
	}
	r, err := p.startReader(t.settings, one, p.appMounts(), appRoots)
	if err != nil {
		return s, nil, err
	}
	began := now()
	server, err := p.startServer(t.rig.sources, one, by)
	if err != nil {
		return s, nil, err
	}
	s.said = server.said
	s.pids, err = server.program(t.rig.sources, one)
	if err == nil {
		err = r.awaitProgress(context.Background(), began)
	}
	if err == nil { // or one that has waited for this program would meet its death, too
		err = r.awaitProgress(context.Background(), now())
	}
	if err != nil {
		err = fmt.Errorf("%w; the program: %s", err, server.said())
	}
	return s, r, err
}

// startServer starts the container with the program.
func (p *pod) startServer(s *sources, one program, by string) (*container, error) {
	inside := *s
	inside.modules = modulesInside
	restarts, at := []string{"/run/pod-fuse/pod-fuse", "run", "--restart", "--"}, mountpoint
	switch by {
	case byFusermount:
		restarts = []string{"/podchaos", "supervise"}
	case byFD:
		at = "{}"
	}
	return p.start(one.name, append(restarts, one.commandLine(&inside, "/source", at, false)...), p.serverMounts(), nil)
}

// program tells the PIDs of the program in its container.
func (c *container) program(s *sources, one program) (func() []int, error) {
	executable, err := one.executable(s)
	return func() []int { return c.processes(filepath.Base(executable)) }, err
}

// oldEnough is the age from which on a program that dies is started again at once: pod-fuse run
// has those wait that would rather die again.
const oldEnough = 1100 * time.Millisecond

// killRounds kills a program, waits until it serves again, and so on.
func (t *trial) killRounds(ctx context.Context, s *served, r *reader, result *row) error {
	disturbed := t.disturb(ctx)
	defer disturbed.stop()
	if t.kills == 0 {
		return sleep(ctx, 2*time.Second)
	}
	if err := t.killTimes(ctx, s, r, result); err != nil || t.sleepers == 0 {
		return err
	}
	return t.killAmongSleepers(ctx, s, r, result)
}

// killTimes kills a program as often as was asked for.
func (t *trial) killTimes(ctx context.Context, s *served, r *reader, result *row) error {
	age := oldEnough
	if result.by == byFusermount {
		age = 100 * time.Millisecond
	}
	for range t.kills {
		if err := sleep(ctx, age+t.chance(200*time.Millisecond)); err != nil {
			return err
		}
		if err := t.killOnce(ctx, s, r, result); err != nil {
			return err
		}
	}
	return nil
}

// killOnce kills a program, and waits until it serves again.
func (t *trial) killOnce(ctx context.Context, s *served, r *reader, result *row) error {
	victims := s.pids()
	if len(victims) == 0 {
		return fmt.Errorf("the program does not run")
	}
	began := now()
	for _, pid := range victims {
		if err := unix.Kill(pid, unix.SIGKILL); err != nil && err != unix.ESRCH { // a child of its own has ended
			return fmt.Errorf("kill process %d: %w", pid, err)
		}
	}
	result.kills = append(result.kills, began)
	amid, err := t.killMounterAmid()
	if err != nil {
		return err
	}
	err = await(ctx, stepTimeout, func() error {
		if found := s.pids(); len(found) == 0 || slices.ContainsFunc(found, func(pid int) bool { return slices.Contains(victims, pid) }) {
			return fmt.Errorf("the program did not start again")
		}
		return nil
	})
	if err == nil {
		err = r.awaitProgress(ctx, began)
	}
	served := now()
	if err != nil {
		return fmt.Errorf("after kill %d: %w", len(result.kills), err)
	}
	outage, longest := r.outage(began, served)
	result.outages, result.longest = append(result.outages, outage), max(result.longest, longest)
	// Nobody who waited then is forgotten.
	if err := r.awaitProgress(ctx, served); err != nil {
		return fmt.Errorf("after kill %d, though the program serves again: %w", len(result.kills), err)
	}
	if amid != 0 {
		if _, err := t.awaitMounters(ctx, amid); err != nil {
			return err
		}
	}
	return nil
}
