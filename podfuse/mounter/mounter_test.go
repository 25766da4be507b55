package mounter

import (
	"encoding/binary"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/internal/mount"
	"example.com/pod-info-fuse/internal/proc"
	"example.com/pod-info-fuse/podfuse/wire"
)

func TestServeAndAttach(t *testing.T) {
	w := newWorld(t)
	c := w.container(containerOptions{Sub: "there"})
	generation := c.serve(launchOptions{Text: "one", Mountpoint: "/m"})
	status := w.status("a spare", func(s Status) bool { return s.Spare != 0 })
	for _, pid := range []int{status.PID, status.Spare} {
		for _, set := range []string{"CapEff", "CapPrm", "CapBnd"} {
			const want = "00000000002c0004"
			eventually(t, fmt.Sprintf("%s of process %d is %s", set, pid, want), func() bool { // the spare gives them up as it begins
				fields, err := proc.StatusIn(fmt.Sprintf("/proc/%d", pid))
				must(t, err)
				return fields[set] == want
			})
		}
	}
	if text, err := c.read("/m/text"); text != "one" {
		t.Errorf("at the program's own mount point: %q, %v", text, err)
	}
	if text, err := c.read("/data/text"); err == nil {
		t.Errorf("before it is attached: %q", text)
	}
	if problem := w.attach(generation, c.pid); problem != "" {
		t.Fatal(problem)
	}
	for _, path := range []string{"/data/text", "/sub/text"} {
		if text, err := c.read(path); text != "one" {
			t.Errorf("%s: %q, %v", path, text, err)
		}
	}
	if problem := w.attach(generation, c.pid); problem != "" {
		t.Errorf("attached a second time: %s", problem)
	}

	c.killProgram()
	if died := w.event(wire.Died); died.Generation != generation || len(died.files) != 1 {
		t.Errorf("%+v", died)
	}
	if err := unix.Access("/proc/self/fd", 0); err != nil {
		t.Fatal(err)
	}
	next := c.serve(launchOptions{Text: "two", Mountpoint: "/m"})
	if next <= generation {
		t.Errorf("generation %d after %d", next, generation)
	}
	if problem := w.attach(generation, c.pid); !strings.Contains(problem, "does not serve") {
		t.Errorf("attach the dead generation: %q", problem)
	}
	if problem := w.attach(next, c.pid); problem != "" {
		t.Fatal(problem)
	}
	for _, path := range []string{"/data/text", "/sub/text", "/m/text"} {
		if text, err := c.read(path); text != "two" {
			t.Errorf("%s: %q, %v", path, text, err)
		}
	}
	if err := w.client.Forget(w.data.ID()); err != nil {
		t.Fatal(err)
	}
	w.event(wire.Forgotten)
}

// Of a container, another process is taken when one has ended.
func TestAProcessThatEndsMeanwhile(t *testing.T) {
	w := newWorld(t)
	c := w.container(containerOptions{})
	c.serve(launchOptions{Text: "one"})
	program := c.programs("program")[0]
	name, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/mnt", program))
	must(t, err)
	var asked []int
	look := func(p *process) error {
		if asked = append(asked, p.pid); p.pid == program {
			c.killProgram()
			eventually(t, "it ends", func() bool { return p.alive() != nil })
			return p.alive()
		}
		return nil
	}
	if err := inNamespace(mount.Namespace{PID: program, Name: name}, look); err != nil || len(asked) != 2 || asked[0] != program {
		t.Errorf("asked %v, the program is %d; %v", asked, program, err)
	}
	asked = nil
	if err := inNamespace(mount.Namespace{PID: os.Getpid(), Name: name}, look); err != nil || len(asked) != 1 || asked[0] == os.Getpid() {
		t.Errorf("a process of another namespace is there by now: asked %v, %v", asked, err)
	}
	c.kill()
	eventually(t, "there is none", func() bool {
		asked = nil
		must(t, inNamespace(mount.Namespace{PID: c.pid, Name: name}, look))
		return asked == nil
	})
}

// A program's own mount goes when it asks for that, as with fusermount -u, and it is told so.
// What the container has below the volume stays there, for each program: another volume, and
// this one.
func TestVolumeBelow(t *testing.T) {
	for _, o := range []containerOptions{{Sub: "there", Below: "there"}, {Sub: "there", Within: "there"}} {
		t.Run(o.Below+" "+o.Within, func(t *testing.T) {
			w := newWorld(t)
			c := w.container(o)
			for _, program := range []string{"one", "two"} {
				generation := c.serve(launchOptions{Text: program})
				below, want := "/data/there/file", "below"
				if o.Within != "" {
					below, want = "/data/there/text", program
				}
				for range 2 {
					if problem := w.attach(generation, c.pid); problem != "" {
						t.Fatal(problem)
					}
					for path, want := range map[string]string{"/data/text": program, "/sub/text": program, below: want} {
						if text, err := c.read(path); text != want {
							t.Errorf("%s: %q, %v, want %q", path, text, err, want)
						}
					}
				}
				c.killProgram()
				w.died(generation)
			}
		})
	}
}

func TestUnmountOwn(t *testing.T) {
	w := newWorld(t)
	c := w.container(containerOptions{})
	c.serve(launchOptions{Text: "one", Mountpoint: "/m"})
	if answer := c.refused(0, launchOptions{Unmount: true, Mountpoint: "/mine"}); answer == "served" {
		t.Error("what is mounted nowhere was unmounted")
	}
	if answer := c.refused(0, launchOptions{Unmount: true, Mountpoint: "/m"}); answer != "served" {
		t.Errorf("unmount: %s", answer)
	}
	if mounts := c.mounts("fuse"); len(mounts) > 0 {
		t.Errorf("left: %q", mounts)
	}
}

// A request can be had on the connection of a dead program for as long as a container has something
// of it, though another program serves.
func TestProvoke(t *testing.T) {
	w := newWorld(t)
	c := w.container(containerOptions{})
	one := c.serve(launchOptions{Text: "one"})
	if problem := w.attach(one, c.pid); problem != "" {
		t.Fatal(problem)
	}
	c.killProgram()
	died := w.died(one)
	if len(died.files) != 1 {
		t.Fatalf("%+v", died)
	}
	defer died.files[0].Close() // and the children that hang end: nobody else has it
	fd := int(died.files[0].Fd())
	must(t, unix.SetNonblock(fd, true))
	request := make([]byte, 2<<20)
	provoke := func() (answer [16]byte) { // struct fuse_out_header
		t.Helper()
		w.order(wire.Order{Kind: wire.Provoke, Volume: w.data.ID(), Generation: one})
		const statFS = 17 // linux/fuse.h
		for opcode := uint32(0); opcode != statFS; {
			poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
			if n, err := unix.Poll(poll, 60_000); n == 0 || err != nil && err != unix.EINTR {
				t.Fatalf("no request: %v", err)
			}
			if _, err := unix.Read(fd, request); err == nil {
				opcode = binary.NativeEndian.Uint32(request[4:])
			} else if err != unix.EAGAIN && err != unix.EINTR && err != unix.ENOENT {
				t.Fatal(err)
			}
		}
		binary.NativeEndian.PutUint32(answer[0:], 16)
		status := -int32(unix.ESTALE)
		binary.NativeEndian.PutUint32(answer[4:], uint32(status))
		copy(answer[8:], request[8:16])
		return answer
	}
	answer := func(with [16]byte) {
		t.Helper()
		_, err := unix.Write(fd, with[:])
		must(t, err)
	}
	answer(provoke())
	c.serve(launchOptions{Text: "two"})
	for range 3 {
		answer(provoke())
	}
	// As if a process of the pair had died three times with one: the fourth comes all the same.
	var unanswered [][16]byte
	for range mostProvoking {
		unanswered = append(unanswered, provoke())
	}
	w.order(wire.Order{Kind: wire.Provoke, Volume: w.data.ID(), Generation: one})
	poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	if n, _ := unix.Poll(poll, 200); n != 0 {
		t.Errorf("more than %d at the same time", mostProvoking)
	}
	answer(unanswered[0])
	if n, err := unix.Poll(poll, int(hang.Milliseconds())); n != 1 {
		t.Errorf("no request after one has ended: %v", err)
	}
	must(t, w.client.Forget(w.data.ID()))
}

// The answer to the first request may be an error.
func TestServedWithoutStatFS(t *testing.T) {
	w := newWorld(t)
	c := w.container(containerOptions{})
	generation := c.serve(launchOptions{Text: "one", NoStatFS: true})
	if problem := w.attach(generation, c.pid); problem != "" {
		t.Fatal(problem)
	}
	if text, err := c.read("/data/text"); text != "one" {
		t.Errorf("%q, %v", text, err)
	}
}

// A pair that does not read for a while is told what it has missed.
func TestSlowPair(t *testing.T) {
	w := newWorld(t)
	c := w.container(containerOptions{})
	generation := c.serve(launchOptions{Text: "one"})
	for range 2*mostEvents + cap(w.events) {
		w.order(wire.Order{Kind: "unknown"}) // whose answers wait
	}
	c.killProgram()
	time.Sleep(200 * time.Millisecond)
	w.died(generation)
}
