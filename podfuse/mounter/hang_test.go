package mounter

import (
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/e2e/slowclose"
	"example.com/pod-info-fuse/e2e/stopwatch"
	"example.com/pod-info-fuse/internal/proc"
	"example.com/pod-info-fuse/podfuse/wire"
)

// hangInExecve has a process of the container hang in execve(2).
func (c *pod) hangInExecve(f *slowclose.File) *exec.Cmd {
	c.w.t.Helper()
	cmd := c.exec(0, slowclose.Verb, "/slow/"+filepath.Base(f.Path), "/test", "/test", "sleeper")
	cmd.Stderr = os.Stderr
	must(c.w.t, cmd.Start())
	go func() { _ = cmd.Wait() }()
	f.Waits(c.w.t)
	return cmd
}

// Whoever asks the kernel about a process that hangs in execve(2) may hang. In another pod, nobody
// notices. In its own, a program that lives is not taken for dead, and one that dies is, a little
// later.
func TestWhoExecutesMeanwhile(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		what        string
		groups, own bool
	}{
		{"in another pod", true, false},
		{"in another pod, and pods have no cgroups", false, false},
		{"in its own pod", true, true},
		{"in its own pod, and pods have no cgroups", false, true},
	} {
		t.Run(row.what, func(t *testing.T) {
			t.Parallel()
			f := slowclose.Mount(t)
			w := newWorld(t)
			const otherUID = "99999999-2222-3333-4444-555555555555"
			otherData, otherServer := w.mount("data", otherUID)
			c := w.container(containerOptions{Slow: f.Dir, NoGroup: !row.groups})
			other := w.container(containerOptions{Client: otherData.ID(), Server: otherServer.ID(), Slow: f.Dir, NoGroup: !row.groups})
			watch := stopwatch.Start()
			one := c.serve(launchOptions{Text: "one", Mountpoint: "/m"})
			if problem := w.attach(one, c.pid); problem != "" {
				t.Fatal(problem)
			}
			usual, _ := watch.Stop() // on this machine
			defer f.Answer()         // or no container ends
			if row.own {
				c.hangInExecve(f)
			} else {
				other.hangInExecve(f)
			}
			w.quiet("a program that lives", 200*time.Millisecond)

			watch = stopwatch.Start()
			c.killProgram()
			if died := w.died(one); len(died.files) != 1 {
				t.Errorf("%+v", died)
			}
			took, late := watch.Stop()
			if !row.own && took > usual+hiddenTime/2 || row.own && (took < hiddenTime/2 || took > usual+2*hiddenTime) {
				t.Errorf("its death was known after %v, and the machine stood still for %v", took, late)
			}
			watch = stopwatch.Start()
			two := c.serve(launchOptions{Text: "two", Mountpoint: "/m"})
			if problem := w.attach(two, c.pid); problem != "" {
				t.Fatal(problem)
			}
			for _, path := range []string{"/data/text", "/m/text"} {
				if text, err := c.read(path); text != "two" {
					t.Errorf("%s: %q, %v", path, text, err)
				}
			}
			if took, late := watch.Stop(); took > 2*usual+hiddenTime/2 {
				t.Errorf("the next one served after %v, the one before after %v, and the machine stood still for %v", took, usual, late)
			}
		})
	}
}

// Who first looks while a program's death is not known yet is not told to look at its mount: he
// would wait there, and get an error when the next one serves. Here the look for who else has the
// connection takes seconds.
func TestNobodyIsSentToADeadProgram(t *testing.T) {
	t.Parallel()
	for _, groups := range []bool{true, false} {
		t.Run(fmt.Sprintf("pods have cgroups: %t", groups), func(t *testing.T) {
			t.Parallel()
			f := slowclose.Mount(t)
			w := newWorld(t, "CHECKS=1") // it is noticed that the launcher has closed its descriptor
			c, late := w.container(containerOptions{Slow: f.Dir, NoGroup: !groups}), w.container(containerOptions{NoGroup: !groups})
			one := c.serve(launchOptions{Text: "one"})
			if problem := w.attach(one, c.pid); problem != "" {
				t.Fatal(problem)
			}
			program := c.programs("program")[0]
			w.status("the program is found", func(s Status) bool { return s.Volumes[0].PID == program })
			process, err := proc.Open(program)
			must(t, err)
			defer process.Close()
			defer f.Answer() // or no container ends
			c.hangInExecve(f)

			c.killProgram()
			if !process.Ended(hang) { // one that ends may still seem to live
				t.Fatal("the program does not end")
			}
			waits := map[uint64]bool{}
			for _, pid := range []int{late.pid, 0} { // 0: wherever one is that has died before
				waits[w.order(wire.Order{Kind: wire.Attach, Volume: w.data.ID(), Generation: one, PID: pid})] = true
			}
			for died := false; !died || len(waits) > 0; {
				switch e := <-w.events; {
				case e.Kind == wire.Died:
					died = true
					if found := late.mounts("fuse"); len(found) > 0 {
						t.Errorf("the container has what it served: %q", found)
					}
				case e.Kind == wire.Attached && (!died || e.Error == ""):
					t.Fatalf("its death is known: %t; what it served is attached: %q", died, e.Error)
				case e.Kind == wire.Attached:
					delete(waits, e.Ticket)
				}
			}
			two := c.serve(launchOptions{Text: "two"})
			if problem := w.attach(two, late.pid); problem != "" {
				t.Fatal(problem)
			}
			if text, err := late.read("/data/text"); text != "two" {
				t.Errorf("%q, %v", text, err)
			}
		})
	}
}

// A mounter that begins while a process hangs finds the program that lives, and the death of one.
func TestWhoExecutesWhileTheMounterBegins(t *testing.T) {
	t.Parallel()
	f := slowclose.Mount(t)
	w := newWorld(t)
	c := w.container(containerOptions{Slow: f.Dir})
	one := c.serve(launchOptions{Text: "one"})
	defer f.Answer() // or no container ends
	c.hangInExecve(f)
	before := w.status("a spare", func(s Status) bool { return s.Spare != 0 })
	must(t, unix.Kill(before.PID, unix.SIGKILL))
	program := c.programs("program")[0]
	w.status("the next one, which has found the program", func(s Status) bool {
		return s.PID != before.PID && len(s.Volumes) == 1 && s.Volumes[0].PID == program
	})
	w.quiet("a program that lives", hiddenTime+time.Second)
	c.killProgram()
	w.died(one)
}

// A program that is killed while it waits in the kernel for its own answer does not end. It counts
// as dead, and ends when the pair has answered.
func TestWhoWaitsForItself(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "LATE=1") // it is noticed when it is looked again
	c := w.container(containerOptions{})
	one := c.serve(launchOptions{Text: "one", Mountpoint: "/m", Itself: "/m/never"})
	if problem := w.attach(one, c.pid); problem != "" {
		t.Fatal(problem)
	}
	t.Cleanup(c.abort("/m")) // or it never ends, whatever fails here
	program := c.programs("program")[0]
	must(t, unix.Kill(program, unix.SIGUSR1))
	tasks := fmt.Sprintf("/proc/%d/task", program)
	waits := func() (threads []string) {
		all, _ := readNames(tasks)
		for _, thread := range all {
			if text, err := os.ReadFile(tasks + "/" + thread + "/status"); err == nil && !strings.Contains(string(text), "State:\tZ") {
				threads = append(threads, thread)
			}
		}
		return threads
	}
	eventually(t, "it waits for itself", func() bool {
		return slices.ContainsFunc(waits(), func(thread string) bool {
			text, _ := os.ReadFile(tasks + "/" + thread + "/wchan")
			wchan := string(text) // fuse_dev_do_read: of those that wait for requests
			return strings.Contains(wchan, "request_wait_answer") || strings.Contains(wchan, "fuse_") && !strings.Contains(wchan, "fuse_dev_")
		})
	})
	w.quiet("a program that lives", 1500*time.Millisecond)

	must(t, unix.Kill(program, unix.SIGKILL))
	died := w.died(one)
	if len(died.files) != 1 {
		t.Fatalf("%+v", died)
	}
	if threads := waits(); len(threads) != 1 {
		t.Errorf("threads %v are left, not the one that waits", threads)
	}
	two := c.serve(launchOptions{Text: "two", Mountpoint: "/m"})
	if problem := w.attach(two, c.pid); problem != "" {
		t.Fatal(problem)
	}
	for _, path := range []string{"/data/text", "/m/text"} {
		if text, err := c.read(path); text != "two" {
			t.Errorf("%s: %q, %v", path, text, err)
		}
	}
	answerAll(t, died.files[0], func() bool { return len(waits()) == 0 })
}

// abort ends the connection of what is mounted in the container, by the file system fusectl.
func (c *pod) abort(path string) (end func()) {
	c.w.t.Helper()
	for _, mount := range c.mounts("fuse") {
		fields := strings.Fields(mount) // man 5 proc_pid_mountinfo
		if fields[4] != path {
			continue
		}
		_, connection, _ := strings.Cut(fields[2], ":")
		return func() {
			connections := c.w.t.TempDir()
			must(c.w.t, unix.Mount("none", connections, "fusectl", 0, ""))
			_ = os.WriteFile(filepath.Join(connections, connection, "abort"), []byte("1"), 0) // else it has ended
			must(c.w.t, unix.Unmount(connections, 0))
		}
	}
	c.w.t.Fatalf("no program is mounted on %s", path)
	return nil
}

// answerAll answers ESTALE to what waits on the connection of a dead program, as the pair does,
// until all is done.
func answerAll(t *testing.T, device *os.File, done func() bool) {
	t.Helper()
	defer device.Close() // not before: a file that nobody has any more, the garbage collector closes
	fd := int(device.Fd())
	must(t, unix.SetNonblock(fd, true))
	header := func(status int32, id []byte) []byte { // struct fuse_out_header
		text := binary.NativeEndian.AppendUint32(nil, 16)
		return append(binary.NativeEndian.AppendUint32(text, uint32(status)), id...)
	}
	const resend = 7 // linux/fuse.h, FUSE_NOTIFY_RESEND
	_, err := unix.Write(fd, header(resend, make([]byte, 8)))
	must(t, err)
	request := make([]byte, 2<<20)
	eventually(t, "all is answered", func() bool {
		for {
			if _, err := unix.Read(fd, request); err != nil {
				return done()
			}
			_, _ = unix.Write(fd, header(-int32(unix.ESTALE), request[8:16])) // what wants no answer gets an error
		}
	})
}

// A mounter that has no descriptors left cannot ask who has a connection open, and takes no program
// for dead.
func TestWithoutDescriptors(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "LATE=1") // it is looked again
	c := w.container(containerOptions{})
	generation := c.serve(launchOptions{Text: "one"})
	program := c.programs("program")[0]
	s := w.status("the program is found, and there is a spare", func(s Status) bool {
		return s.Spare != 0 && len(s.Volumes) == 1 && s.Volumes[0].PID == program
	})
	var had unix.Rlimit
	must(t, unix.Prlimit(s.PID, unix.RLIMIT_NOFILE, nil, &had))
	none := had
	none.Cur = 0
	must(t, unix.Prlimit(s.PID, unix.RLIMIT_NOFILE, &none, nil))
	w.quiet("a program that lives", 2*time.Second)
	must(t, unix.Prlimit(s.PID, unix.RLIMIT_NOFILE, &had, nil))
	if problem := w.attach(generation, c.pid); problem != "" {
		t.Fatal(problem)
	}
	c.killProgram()
	w.died(generation)
}
