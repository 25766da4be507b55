package mounter

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"example.com/pod-info-fuse/podfuse/wire"
	"example.com/pod-info-fuse/survive/volume"
)

// What a program serves takes the place of what a dead one has served, once, however many orders to
// do so come at the same time: orders of a volume are carried out one after the other.
func TestManyOrdersForOneVolume(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	containers := []*pod{w.container(containerOptions{Sub: "there"}), w.container(containerOptions{Below: "there"})}
	for _, text := range []string{"one", "two", "three"} {
		generation := containers[0].serve(launchOptions{Text: text})
		waits := map[uint64]bool{}
		for i := range 12 {
			pid := 0 // wherever a dead program's is
			if i%3 < len(containers) {
				pid = containers[i%3].pid
			}
			waits[w.order(wire.Order{Kind: wire.Attach, Volume: w.data.ID(), Generation: generation, PID: pid})] = true
		}
		for len(waits) > 0 {
			e := w.event(wire.Attached)
			if delete(waits, e.Ticket); e.Error != "" && e.Error != errHangs.Error() { // for want of a processor
				t.Errorf("attach %s: %s", text, e.Error)
			}
		}
		for i, c := range containers {
			if problem := w.attach(generation, c.pid); problem != "" {
				t.Fatal(problem)
			}
			if got, err := c.read("/data/text"); got != text {
				t.Errorf("container %d: %q, %v, want %q", i, got, err, text)
			}
			want := 2 - i // with the one on /sub
			if mounts := c.mounts("fuse"); len(mounts) != want {
				t.Errorf("container %d: not %d mounts of programs, but\n%s", i, want, fmt.Sprint(mounts))
			}
		}
		containers[0].killProgram()
		w.died(generation)
	}
}

// Who waits for an order is not told that all is attached if the program has died meanwhile.
func TestAProgramThatDiesWhileItIsAttached(t *testing.T) {
	t.Parallel()
	awaits, lets, variable := stopsAt(t, "attach")
	w := newWorld(t, variable)
	c := w.container(containerOptions{})
	one := c.serve(launchOptions{Text: "one"})
	ticket := w.order(wire.Order{Kind: wire.Attach, Volume: w.data.ID(), Generation: one, PID: c.pid})
	awaits("attach")
	c.killProgram()
	w.died(one)
	lets("attach")
	if problem := w.answered(ticket, "attach").Error; !strings.Contains(problem, "does not serve") {
		t.Errorf("the answer is %q", problem)
	}
}

// takesTurns carries out one by one what goroutines ask the mounter to do, until end.
func (m *mounter) takesTurns() (end func()) {
	go func() {
		for turn := range m.turns {
			turn()
		}
	}()
	return func() { close(m.turns) }
}

// As long as the node mount is not there, nobody knows what is a stand-in: who has one of a dead
// program is not passed over.
func TestAttachWithoutANodeMount(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c, reader := w.container(containerOptions{}), w.container(containerOptions{Reads: true})
	one := c.serve(launchOptions{Text: "one"})
	if problem := w.attach(one, reader.pid); problem != "" {
		t.Fatal(problem)
	}
	c.killProgram()
	w.died(one)
	two := c.serve(launchOptions{Text: "two"})
	back := w.withoutNodeMount()
	if problem := w.attach(two, 0); !strings.Contains(problem, errNoNodeMount.Error()) {
		t.Errorf("without the node mount: %q", problem)
	}
	back()
	if problem := w.attach(two, 0); problem != "" {
		t.Error(problem)
	}
	if text, err := reader.read("/data/text"); text != "two" {
		t.Errorf("%q, %v", text, err)
	}
}

// A volume that somebody works on is nobody else's meanwhile, whenever its entry in the table is
// found to be empty.
func TestOneWorksOnAVolume(t *testing.T) {
	const id, some, times = volume.ID(7), 8, 500
	m := newMounter(&base{})
	go func() {
		for turn := range m.turns {
			turn()
			m.tidy(id) // as somebody does whose work has ended
		}
	}()
	defer close(m.turns)
	var working, together atomic.Int32
	var all sync.WaitGroup
	for range some {
		all.Go(func() {
			for range times {
				release, err := m.lockVolume(id, time.Now().Add(hang))
				if err != nil {
					t.Error(err)
					return
				}
				if working.Add(1) > 1 {
					together.Add(1)
				}
				runtime.Gosched()
				working.Add(-1)
				release()
			}
		})
	}
	all.Wait()
	if n := together.Load(); n > 0 {
		t.Errorf("%d times of %d, two worked on it", n, some*times)
	}
	m.do(func() {
		if len(m.volumes) > 0 {
			t.Errorf("left: %v", m.volumes)
		}
	})
}
