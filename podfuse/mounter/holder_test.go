package mounter

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/podfuse/packet"
)

// What several looks have seen counts together, also when one of them fails; and who hides all the time does not
// have it look for ever.
func TestSettle(t *testing.T) {
	old := lookAgain
	lookAgain = time.Millisecond
	defer func() { lookAgain = old }()
	errShort := fmt.Errorf("open: %w", unix.EMFILE)
	type look struct {
		sight
		err   error
		now   int // the last process, after it
		after int // that it is to be
	}
	for name, test := range map[string]struct {
		looks []look
		want  sight
	}{
		"none": {[]look{{sight{last: 9000}, nil, 9000, everybody}, {sight{last: 9000}, nil, 9000, 9000 - newest}}, sight{last: 9000}},
		"few were ever begun": {
			[]look{{sight{last: 100}, nil, 100, everybody}, {sight{last: 100}, nil, 100, 100 - newest}}, sight{last: 100},
		},
		"being forked": {
			[]look{{sight{last: 9000}, nil, 9000, everybody}, {sight{last: 9000, found: true, pid: 9000}, nil, 9000, 9000 - newest}},
			sight{last: 9000, found: true, pid: 9000},
		},
		"begun meanwhile": {
			[]look{{sight{last: 9000}, nil, 9003, everybody}, {sight{last: 9003, found: true, pid: 9002}, nil, 9003, 9000 - newest}},
			sight{last: 9003, found: true, pid: 9002},
		},
		"the numbers begin again": {
			[]look{{sight{last: 9000}, nil, 9003, everybody}, {sight{last: 9003}, nil, 5, 9000 - newest}, {sight{last: 5}, nil, 5, 9003 - newest}},
			sight{last: 5},
		},
		"nearly all numbers are given": {
			[]look{{sight{last: 9000}, nil, 8500, everybody}, {sight{last: 8500}, nil, 8500, everybody}, {sight{last: 8500}, nil, 8500, 8500 - newest}},
			sight{last: 8500},
		},
		"hides, and others are begun": {
			[]look{{sight{last: 9000, hidden: 1}, nil, 9003, everybody}, {sight{last: 9003}, nil, 9003, 9000 - newest}}, sight{last: 9003, hidden: 1},
		},
		"hides, and a look fails": {
			[]look{{sight{last: 9000, hidden: 1}, nil, 9003, everybody}, {sight{}, errShort, 9003, 9000 - newest}, {sight{last: 9003}, nil, 9003, 9000 - newest}},
			sight{last: 9003, hidden: 1},
		},
		"others hide in each look": {
			[]look{{sight{last: 9000, hidden: mostHidden}, nil, 9100, everybody}}, sight{last: 9000, hidden: mostHidden},
		},
	} {
		t.Run(name, func(t *testing.T) {
			done := 0
			got := settle(func(after int) (sight, error) {
				if done == len(test.looks) {
					t.Fatal("it looks again")
				}
				l := test.looks[done]
				if done++; after != l.after {
					t.Errorf("look %d: after %d, want %d", done, after, l.after)
				}
				return l.sight, l.err
			}, func() (int, error) { return test.looks[done-1].now, nil }, func() bool { return false })
			if got != test.want || done != len(test.looks) {
				t.Errorf("%+v after %d looks, want %+v", got, done, test.want)
			}
		})
	}
	tries := 0
	settle(func(int) (sight, error) { tries++; return sight{last: tries}, nil }, func() (int, error) { return 0, errors.New("not told") }, func() bool { return false })
	if tries < 2 || tries > 100 {
		t.Errorf("%d looks where the last number is not told", tries)
	}
}

// Those that were begun since a number are processes, and no threads, also where the numbers began again meanwhile.
func TestBegunSince(t *testing.T) {
	cmd := exec.Command("/bin/sleep", "3600")
	must(t, cmd.Start())
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	own, child := os.Getpid(), cmd.Process.Pid
	text, err := os.ReadFile("/proc/sys/kernel/pid_max")
	must(t, err)
	most, err := strconv.Atoi(strings.TrimSpace(string(text)))
	must(t, err)
	threads, err := threadsOf(own)
	must(t, err)
	last := max(own, child) // the child's own number may be the lower one, where the numbers have begun again
	for name, test := range map[string]struct {
		after, last int
		own, child  bool
	}{
		"both":                     {min(own, child) - 1, last, true, true},
		"from below the lowest":    {-newest, last, true, true},
		"after one of them":        {min(own, child), last, own > child, child > own},
		"nobody":                   {child, child, false, false},
		"the numbers began again":  {most - 2, last, true, true},
		"they did, and went round": {-3 * most, last, true, true},
	} {
		pids, err := begunSince(test.after, test.last)
		if err != nil || slices.Contains(pids, own) != test.own || slices.Contains(pids, child) != test.child {
			t.Errorf("%s: %v, %v", name, pids, err)
		}
		for _, thread := range threads {
			if number, _ := strconv.Atoi(thread); number != own && slices.Contains(pids, number) {
				t.Errorf("%s: thread %d of process %d is one", name, number, own)
			}
		}
		slices.Sort(pids)
		if len(slices.Compact(slices.Clone(pids))) != len(pids) {
			t.Errorf("%s: some are looked at twice: %v", name, pids)
		}
	}
}

// A program hands its connection on to another one, and closes it when the other one has it. It is somewhere all
// the time.
func TestHandedOn(t *testing.T) {
	pipe, w, err := os.Pipe() // stands for the connection: only kcmp(2) asks
	must(t, err)
	defer pipe.Close()
	defer w.Close()
	own, err := os.Readlink("/proc/self/ns/mnt")
	must(t, err)
	one, two, err := packet.Pair()
	must(t, err)
	// Neither is a child of this process, which would not count.
	var pids [2]string
	for i, f := range []*os.File{one, two} {
		self, err := os.Executable()
		must(t, err)
		args := []string{"-c", `"$0" passer "$@" & echo $!; wait`, self}
		files := []*os.File{f}
		if i == 1 {
			files = append(files, pipe)
			args = append(args, "first")
		}
		cmd := exec.Command("sh", args...)
		cmd.ExtraFiles = files
		out, err := cmd.StdoutPipe()
		must(t, err)
		must(t, cmd.Start())
		defer func() { _ = cmd.Wait() }()
		text := make([]byte, 20)
		n, _ := out.Read(text)
		pids[i] = string(text[:n])
	}
	one.Close()
	two.Close()
	defer func() {
		for _, text := range pids {
			var pid int
			if _, err := fmt.Sscan(text, &pid); err == nil {
				_ = unix.Kill(pid, unix.SIGKILL)
			}
		}
	}()
	c := &connection{file: pipe, gone: make(chan struct{})}
	c.Peer.Mounts = own
	eventually(t, "somebody has it", func() bool { return c.holder().found })
	missed, looks := 0, 0
	for began := time.Now(); time.Since(began) < 5*time.Second; looks++ {
		start := time.Now()
		seen := c.holder()
		// In a longer one, it is handed on twice.
		if took := time.Since(start); !seen.found && seen.hidden == 0 && took < heldTime {
			missed++
		}
	}
	if missed > 0 {
		t.Errorf("missed in %d of %d looks", missed, looks)
	}
}

// passerMain hands what it is given on, and closes it when the other one has said that it has it. The first one
// has it on descriptor 4.
func passerMain(args []string) error {
	const link = 3
	held := -1
	if len(args) > 0 {
		held = 4
	}
	for {
		if held >= 0 {
			time.Sleep(heldTime)
			if err := unix.Sendmsg(link, []byte("x"), unix.UnixRights(held), nil, 0); err != nil {
				return err
			}
			if _, err := unix.Read(link, make([]byte, 1)); err != nil {
				return err
			}
			unix.Close(held)
			held = -1
			continue
		}
		rights := make([]byte, unix.CmsgSpace(4))
		n, r, _, _, err := unix.Recvmsg(link, make([]byte, 1), rights, unix.MSG_CMSG_CLOEXEC)
		if err != nil || n == 0 {
			return err
		}
		messages, err := unix.ParseSocketControlMessage(rights[:r])
		if err != nil {
			return err
		}
		fds, err := unix.ParseUnixRights(&messages[0])
		if err != nil {
			return err
		}
		held = fds[0]
		if _, err := unix.Write(link, []byte("y")); err != nil {
			return err
		}
	}
}

// heldTime is longer than most looks take.
const heldTime = 20 * time.Millisecond
