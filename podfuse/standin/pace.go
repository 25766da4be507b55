package standin

import (
	"runtime"
	"sync"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/internal/later"
	"example.com/pod-info-fuse/survive/volume"
)

// pace bounds the processor time that this process takes to look at the processes of one volume's
// pod. Listing the mounts of a container with a thousand mounts takes the kernel a millisecond, and
// thousands of threads can ask at once. Requests beyond a volume's share are looked at later; the
// host's requests are never delayed. Processor time is measured, and not time by the clock: on a
// busy machine, requests of a program that has just died would wait for the next period.
//
// Delayed requests are looked at one after the other: a look that waits for the kernel takes a
// thread, and this process ends where its cgroup has no room for another thread.
type pace struct {
	looks later.Queue[volume.ID] // delayed

	mu      sync.Mutex // guards what follows
	volumes map[volume.ID]*timeSpent
	parked  map[caller]*time.Timer
}

// timeSpent is what a volume has spent since a time.
type timeSpent struct {
	began time.Time
	spent time.Duration
}

// Each volume has a share of each period, enough for some four thousand requests.
const period = time.Second

var share = 100 * time.Millisecond // a test sets it

func newPace() *pace {
	return &pace{volumes: map[volume.ID]*timeSpent{}, parked: map[caller]*time.Timer{}}
}

// may tells whether a volume has something left of its share.
func (p *pace) may(id volume.ID) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.volumes[id]
	return s == nil || time.Since(s.began) >= period || s.spent < share
}

// spend takes time off a volume's share.
func (p *pace) spend(id volume.ID, d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.volumes[id]
	if s == nil || time.Since(s.began) >= period {
		const many = 1000
		if len(p.volumes) > many {
			clear(p.volumes)
		}
		s = &timeSpent{began: time.Now()}
		p.volumes[id] = s
	}
	s.spent += d
}

// park has a request looked at later, unless it ends before. It returns false where no more can be
// held. A request that ends during the look counts as held until the outage ends.
func (p *pace) park(id volume.ID, c caller, look func()) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.parked) >= mostOfAll {
		return false
	}
	p.parked[c] = time.AfterFunc(period, func() {
		p.looks.Add(id, func() {
			if p.leave(c) {
				look()
			}
		})
	})
	return true
}

// leave tells whether a request was parked, and forgets it.
func (p *pace) leave(c caller) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	timer := p.parked[c]
	if timer == nil {
		return false
	}
	timer.Stop()
	delete(p.parked, c)
	return true
}

func (p *pace) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, timer := range p.parked {
		timer.Stop()
	}
	clear(p.parked)
}

// hold holds a request of a process that has the volume in its container, and tells whether it is
// one.
func (s *service) hold(v volume.Record, thread uint32, c caller) bool {
	ofPod, may := s.processes.canBeContainer(thread, v)
	switch {
	case !may:
		return false
	case ofPod && !s.pace.may(v.ID()):
		parked := s.pace.park(v.ID(), c, func() {
			if !s.hold(v, thread, c) {
				c.on.fail(c.id, fuse.Status(unix.ESTALE)) // of the host, which asks again
			}
		})
		if !parked {
			c.on.fail(c.id, fuse.Status(unix.ENOTCONN))
		}
		return true
	}
	var view string
	var is bool
	s.pace.spend(v.ID(), processorTime(func() { view, is = s.processes.view(thread, v) }))
	if is {
		s.outages.hold(v.ID(), view, thread, c)
	}
	return is
}

// interrupted forgets a request.
func (s *service) interrupted(c caller) {
	s.pace.leave(c)
	s.outages.interrupted(c)
}

// processorTime is how long a function was on a processor.
func processorTime(do func()) time.Duration {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var began, ended unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &began) // cannot fail
	do()
	_ = unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ended)
	return time.Duration(ended.Nano() - began.Nano())
}
