package mounter

import (
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/internal/packet"
)

// A program hands its connection on to another one, and closes it when the other one has it. It is
// somewhere all the time.
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
	for began := time.Now(); time.Since(began) < 2*time.Second; looks++ {
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

// A process that has very many descriptors does not keep the mounter busy: only the first of them
// are looked at.
func TestManyDescriptors(t *testing.T) {
	const many = 3 * mostDescriptors
	var limit unix.Rlimit
	must(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &limit))
	if limit.Cur < many+100 {
		wider := unix.Rlimit{Cur: many + 100, Max: max(limit.Max, many+100)}
		must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &wider))
		t.Cleanup(func() { _ = unix.Setrlimit(unix.RLIMIT_NOFILE, &limit) })
	}
	null, err := os.Open(os.DevNull)
	must(t, err)
	defer null.Close()
	var all []*os.File
	defer func() { packet.Close(all) }()
	for range many {
		f, err := duplicate(null)
		must(t, err)
		all = append(all, f)
	}
	pipe, w, err := os.Pipe() // stands for the connection: only kcmp(2) asks
	must(t, err)
	defer pipe.Close()
	defer w.Close()
	c := &connection{file: pipe, gone: make(chan struct{})}
	own := os.Getpid()
	left := mostDescriptorsOfPod
	if _, fd, err := c.find(own, &left); fd >= 0 || err != nil {
		t.Errorf("the descriptor after all others: found as %d, %v", fd, err)
	}
	if looked := mostDescriptorsOfPod - left; looked < mostDescriptors || looked > 2*mostDescriptors {
		t.Errorf("%d descriptors were looked at, of about %d", looked, many)
	}
	c.file = all[0]
	if _, fd, err := c.find(own, &left); fd < 0 || err != nil {
		t.Errorf("one of the first descriptors is not found: %d, %v", fd, err)
	}
}

// passerMain hands what it is given on, and closes it when the other one has said that it has it.
// The first one has it on descriptor 4.
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
