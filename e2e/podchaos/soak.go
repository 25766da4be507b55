package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/e2e/internal/steady"
)

// A soak is a long time in which one pod reads a volume whose program is killed now and then, and
// others come and go. In the beginning, the driver's processes are disturbed; then they have to
// stay, and not to grow.
type soak struct {
	*trial
	reads, kills, outages, looks *steady.Times
	result                       row // of the pod that stays
	warm                         atomic.Bool
	still                        sync.Mutex // while a program is away, or the processes are looked at
}

// soak is the verb.
func (t *trial) soak(ctx context.Context) {
	s := &soak{trial: t, reads: &steady.Times{Name: "pod-fuse, read"},
		kills: &steady.Times{Name: "pod-fuse, kill"}, outages: &steady.Times{Name: "pod-fuse, a killed program is back"}, looks: &steady.Times{Name: "pod-fuse, first look"}}
	t.rig.mounting, t.rig.unmounting = &steady.Times{Name: "pod-fuse, mount"}, &steady.Times{Name: "pod-fuse, unmount"}
	t.report.check(s.run(ctx))
	t.report.check(s.stop())
}

func (s *soak) run(ctx context.Context) error {
	end := time.Now().Add(s.duration)
	one, by := s.programs[0], s.by[0]
	s.result = row{name: one.name, by: by}
	p, err := s.newPod(one)
	if err != nil {
		return err
	}
	server, reader, err := s.startPod(p, one, by)
	if server != nil {
		defer func() { s.report.check(server.stop()) }()
	}
	if err != nil {
		return err
	}
	reader.time(s.reads)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var beside sync.WaitGroup
	beside.Go(func() { s.comeAndGo(ctx) })
	beside.Go(func() { s.kill(ctx, server, reader) })
	if err = s.warmUp(ctx); err == nil {
		s.warm.Store(true)
		err = s.steady(ctx, end)
	}
	cancel()
	beside.Wait()
	var stopped error
	s.result.seen, stopped = reader.stop()
	s.report.judge(s.result)
	return errors.Join(err, stopped)
}

// pause is for how long none of the pods that come and go is there: not in step with who looks at
// the processes, who would always see one, or never.
func pause() time.Duration { return time.Second + rand.N(2*time.Second) }

// comeAndGo is a kubelet that has pods come and go, with each of the programs in turn: without
// pause, until the processes have grown to their size.
func (s *soak) comeAndGo(ctx context.Context) {
	type way struct {
		program program
		by      string
	}
	var ways []way
	for _, one := range s.programs {
		for _, by := range s.by {
			if by != byFD || one.fd {
				ways = append(ways, way{one, by})
			}
		}
	}
	for i := 0; ctx.Err() == nil; i++ {
		w := ways[i%len(ways)]
		if err := s.oneComes(w.program, w.by); err != nil {
			s.report.violation("pod %d that comes and goes, with %s by %s: %v", i+1, w.program.name, w.by, err)
		}
		if s.warm.Load() {
			_ = sleep(ctx, pause())
		}
	}
}

// oneComes is one of these pods. Its application looks before its program serves, and waits for it.
func (s *soak) oneComes(one program, by string) (err error) {
	p, err := s.newPod(one)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.remove("data", "data-server")) }()
	if err := p.mountVolumes("60s"); err != nil {
		return err
	}
	var out bytes.Buffer
	app, err := p.start("app", []string{"/podchaos", "look", "--read", "--path", "/data/" + fileName(0)}, p.appMounts(), &out)
	if err != nil {
		return err
	}
	server, err := p.startServer(s.rig.sources, one, by)
	if err != nil {
		return err
	}
	select {
	case <-app.left:
	case <-time.After(stepTimeout):
		return fmt.Errorf("the application still waits; the program: %s", server.said())
	}
	var l looked
	if err := json.Unmarshal(out.Bytes(), &l); err != nil || l.Error != "" {
		return fmt.Errorf("the look gave %q (%w); %s; the program: %s", &out, err, app.said(), server.said())
	}
	s.looks.Add(time.Duration(l.To - l.From))
	return nil
}

// kill kills the program of the pod that stays, so often that each part of the time has its share.
func (s *soak) kill(ctx context.Context, server *served, reader *reader) {
	for sleep(ctx, max(5*time.Second, s.duration/360)) == nil {
		s.still.Lock()
		err := s.kills.Of(func() error { return s.killOnce(context.WithoutCancel(ctx), server, reader, &s.result) }) // what has begun is ended
		s.still.Unlock()
		if err != nil {
			s.report.violation("%v; the program: %s", err, server.said())
			return
		}
		if outage := s.result.outages[len(s.result.outages)-1]; outage > 0 {
			s.outages.Add(outage)
		}
	}
}

// warmUpTimeout is how long the disturbed part may be.
const warmUpTimeout = time.Minute

// warmUp has the driver's processes do whatever they do in their life, in a sixth of the time. In
// the second half of that, those who came last grow to their size.
func (s *soak) warmUp(ctx context.Context) error {
	length := min(s.duration/6, warmUpTimeout)
	end := time.Now().Add(length)
	const times = 4
	for i := range times {
		next := time.Now().Add(length / 2 / times)
		for _, do := range []func(*trial, context.Context, int) error{(*trial).killOfPair, (*trial).killMounter} {
			if err := do(s.trial, ctx, i); err != nil {
				return fmt.Errorf("warm-up: %w", err)
			}
		}
		if err := sleep(ctx, time.Until(next)); err != nil {
			return err
		}
	}
	if s.other != "" {
		for i := range 2 {
			if err := s.upgrade(ctx, i); err != nil {
				return fmt.Errorf("warm-up: %w", err)
			}
		}
	}
	return sleep(ctx, max(time.Until(end), length/2)) // also where it took longer to end them all
}

// steady watches the driver's processes until the end.
func (s *soak) steady(ctx context.Context, end time.Time) error {
	first, err := s.rig.awaitPair(ctx, 0)
	if err != nil {
		return err
	}
	mounters, err := s.awaitMounters(ctx)
	if err != nil {
		return err
	}
	active, standby := first.pids()
	w := steady.Watch{
		Processes: []steady.Process{{Name: "pod-fuse, active", PID: active}, {Name: "pod-fuse, standby", PID: standby},
			{Name: "pod-fuse, mounter", PID: mounters[0]}, {Name: "pod-fuse, its spare", PID: mounters[1]}},
		Times:       []*steady.Times{s.reads, s.rig.mounting, s.rig.unmounting, s.looks, s.kills, s.outages},
		Undisturbed: func() error { return s.undisturbed(first, mounters) },
		Still:       &s.still,
	}
	if s.samples != "" {
		file, err := os.Create(s.samples)
		if err != nil {
			return err
		}
		defer func() { s.report.check(file.Close()) }()
		w.Lines = file
	}
	if err := w.Until(ctx, end, steady.Every(s.duration)); err != nil {
		return err
	}
	for _, line := range w.Table() {
		s.report.note("%s", line)
	}
	for _, grown := range w.Grown() {
		s.report.violation("beside a load that did not grow, %s", grown)
	}
	return nil
}

// undisturbed demands the same processes in the same roles.
func (s *soak) undisturbed(first status, mounters []int) error {
	now, err := s.rig.status()
	if err != nil {
		return err
	}
	active, standby := first.pids()
	// A mounter has children, which look like itself until they have executed something.
	found := s.rig.mounters()
	if a, b := now.pids(); a == active && b == standby && slices.Contains(found, mounters[0]) && slices.Contains(found, mounters[1]) {
		return nil
	}
	return fmt.Errorf("the pair was %d and %d, and the mounters %v, nobody disturbed them, and now there are %+v and %v; "+
		"if the binary is a strict build, the kernel's log may tell which system call was denied", active, standby, mounters, now.Daemon, found)
}

// stop removes the driver's processes, after the last volume: nothing of theirs may be left.
func (s *soak) stop() error {
	now, err := s.rig.status()
	if err != nil {
		return err
	}
	if _, err := s.rig.execute("stop"); err != nil {
		return err
	}
	if _, err := os.Lstat(now.RunDir); !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("%s is left (%w)", now.RunDir, err)
	}
	if left := s.rig.processes(); len(left) > 0 {
		return fmt.Errorf("processes %d are left", left)
	}
	return nil
}
