package main_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"example.com/pod-info-fuse/e2e/attack"
	"example.com/pod-info-fuse/internal/proc"
	"example.com/pod-info-fuse/survive/volume"
)

const otherUID = "2e2de05b-6b6f-4c7d-b9d6-3d7d3fb1c5b2"

// attacked installs the attacker.
func (n node) attacked() {
	n.t.Helper()
	must(n.t, os.Remove(n.path))
	must(n.t, os.Link(attacker, n.path))
	must(n.t, os.WriteFile(attackLog, nil, 0o600))
}

// attacks are what the processes of the daemon have logged, or one of them.
func attacks(t *testing.T, pid int) (lines []string) {
	t.Helper()
	for line := range strings.Lines(read(t, attackLog)) {
		_, event, is := strings.Cut(strings.TrimSpace(line), "]: daemon: ")
		if is && (pid == 0 || strings.Contains(line, fmt.Sprintf("[%d]: ", pid))) {
			lines = append(lines, event)
		}
	}
	return lines
}

// What the attacks do where nothing confines them is shown in e2e/attack.
func TestWhoTakesOverThePairHasGainedNothing(t *testing.T) {
	arrived, end, err := attack.Listen()
	must(t, err)
	defer end()
	n := newNode(t)
	n.attacked()
	n.must("init")
	n.must("mount", n.volume(podUID, "data"), options(podUID))
	eventually(t, "there is a standby", func() bool { return n.status().Daemon.Standby != nil })
	s := n.status().Daemon
	for _, pid := range []int{s.Active.PID, s.Standby.PID} {
		var of []string
		eventually(t, "its attacks end", func() bool {
			of = attacks(t, pid)
			return slices.Contains(of, "attacks end")
		})
		refused := 0
		for _, event := range of {
			if strings.HasPrefix(event, "attack refused: ") {
				refused++
			} else if strings.HasPrefix(event, "attack succeeded: ") {
				t.Errorf("process %d: %s", pid, event)
			}
		}
		if refused < 58 {
			t.Errorf("process %d: %d attacks were refused", pid, refused)
		}
	}
	if got := arrived(); got != 0 {
		t.Errorf("another service got %d datagrams", got)
	}
}

// Whoever has the pair can order what it likes. One descriptor comes, of a program that is dead,
// which shows that others would be seen; and one mount is attached, which is the same order as
// those that are refused, with nothing forged.
func TestWhoTakesOverThePairGetsNothingFromTheMounter(t *testing.T) {
	n := newNode(t)
	client, server := n.pod()
	n.serves(client, server)
	otherClient, otherServer := n.volume(otherUID, "data"), n.volume(otherUID, "data-server")
	n.must("mount", otherClient, options(otherUID))
	n.must("mount", otherServer, options(otherUID, "serves", "data"))
	n.serves(otherClient, otherServer)
	deadClient, deadServer := n.volume(podUID, "dead"), n.volume(podUID, "dead-server")
	n.must("mount", deadClient, options(podUID))
	n.must("mount", deadServer, options(podUID, "serves", "dead"))
	kill := n.serves(deadClient, deadServer)
	readers := []string{n.stays(client, server), n.stays(otherClient, otherServer)}
	if got := n.reads(deadClient, deadServer); got != "hello" {
		t.Fatalf("read %q", got)
	}
	kill()
	eventually(t, "its death is known", func() bool {
		for _, p := range n.status().Programs {
			if p.ID == volume.NewID(deadClient).String() && p.State != "served" {
				return true
			}
		}
		return false
	})

	n.attacked()
	t.Cleanup(func() {
		if t.Failed() {
			refused := regexp.MustCompile(`(?m)^.*: attack refused: .*\n`)
			t.Logf("log, but for what was refused: %s", refused.ReplaceAllString(read(t, attackLog), ""))
		}
	})
	n.must("init")
	m := n.status().Mounter
	mostChildren := 0
	// A machine with more to do than processors takes minutes. An order without an answer says so
	// itself.
	within(t, 10*time.Minute, "the attacks end", func() bool {
		mostChildren = max(mostChildren, children(m.PID))
		return strings.Contains(read(t, attackLog), "attacks on the mounter end")
	})
	done, refused := 0, 0
	for _, event := range attacks(t, 0) {
		switch {
		case strings.HasPrefix(event, "attack refused: "):
			refused++
		case strings.HasPrefix(event, "done: "):
			done++
		case event == "attack got a descriptor: died "+volume.NewID(deadClient).String():
		case strings.HasPrefix(event, "attack "), strings.HasPrefix(event, "attack:"):
			t.Error(event)
		}
	}
	if done == 0 || refused < 100 || !strings.Contains(read(t, attackLog), "attack got a descriptor: died ") {
		t.Errorf("%d orders were done, and %d refused", done, refused)
	}
	if now := n.status().Mounter; now.PID != m.PID || now.Spare != m.Spare || m.Spare == 0 {
		t.Errorf("the mounter is %+v, and was %+v", now, m)
	}
	memory, err := proc.StatusIn(fmt.Sprintf("/proc/%d", m.PID))
	must(t, err)
	var kib int
	if _, err := fmt.Sscan(memory["VmHWM"], &kib); err != nil || kib > 100<<10 || mostChildren > 30 {
		t.Errorf("the mounter has taken %s, %v, and had %d children", memory["VmHWM"], err, mostChildren)
	}
	if size := len(read(t, attackLog)); size > 1<<20 {
		t.Errorf("the log has %d bytes", size)
	}
	t.Logf("%d orders were done and %d refused; the mounter took %s, and had %d children", done, refused, memory["VmHWM"], mostChildren)
	for i, root := range readers {
		if got := read(t, root+"/mnt/data/text"); got != "hello" {
			t.Errorf("reader %d: %q", i, got)
		}
	}
}

// stays starts a container that has read what the program serves, and returns its root directory.
func (n node) stays(client, server string) (root string) {
	n.t.Helper()
	command := n.inContainer(client, server, "sh", "-c", "cat /mnt/data/text && exec sleep 3600")
	out, err := command.StdoutPipe()
	must(n.t, err)
	must(n.t, command.Start())
	n.t.Cleanup(func() { _ = command.Process.Kill(); _ = command.Wait() })
	text := make([]byte, 5)
	if _, err := out.Read(text); err != nil || string(text) != "hello" {
		n.t.Fatalf("read %q, %v", text, err)
	}
	inside, err := exec.Command("pgrep", "-P", strconv.Itoa(command.Process.Pid)).Output()
	must(n.t, err)
	return "/proc/" + strings.TrimSpace(string(inside)) + "/root"
}

// children counts those of a process.
func children(pid int) (count int) {
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, task := range tasks {
		text, _ := os.ReadFile(task)
		count += len(bytes.Fields(text))
	}
	return count
}
