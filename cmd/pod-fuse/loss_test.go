package main_test

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// lossTest is a pod with two client volumes, whose programs have their connections by the two ways
// that there are, and a reader of each.
type lossTest struct {
	node
	mount [][]string // call-outs that change nothing
	reads map[string]func() string
}

func newLossTest(t *testing.T, csi bool) *lossTest {
	n := newNode(t)
	n.csi = csi
	l := &lossTest{node: n, reads: map[string]func() string{}}
	// Not by run --restart, which delays a program that has lived for less than a second.
	for name, mountpoint := range map[string]string{"descriptor": "{}", "fusermount": "/mnt/own"} {
		program := []string{"sh", "-c", `mkdir /mnt/own; export PATH=/mnt/server:$PATH; while :; do pod-fuse run -- "$0" "$1"; done`, self(t), mountpoint}
		client, server := n.volume(podUID, name), n.volume(podUID, name+"-server")
		for _, mount := range [][]string{
			{"mount", client, options(podUID, "kubernetes.io/pvOrVolumeName", name)}, {"mount", server, options(podUID, "serves", name)},
		} {
			n.must(mount...)
			l.mount = append(l.mount, mount)
		}
		n.prints(n.inContainer(client, server, program...))
		l.reads[name] = n.reader(client)
	}
	l.readAll("at first")
	return l
}

// reader starts a container that reads what the program serves, each time that it is told to. It
// has no server volume: where a program may be, nobody waits for it.
func (n node) reader(client string) (reads func() string) {
	n.t.Helper()
	command := n.inContainer(client, n.t.TempDir(), "sh", "-c", `while read -r _; do echo "$(cat /mnt/data/text 2>&1)"; done`)
	tell, err := command.StdinPipe()
	must(n.t, err)
	output, err := command.StdoutPipe()
	must(n.t, err)
	must(n.t, command.Start())
	n.t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
	})
	lines := bufio.NewReader(output)
	return func() string {
		if _, err := io.WriteString(tell, "\n"); err != nil {
			return err.Error()
		}
		line, err := lines.ReadString('\n')
		if err != nil {
			return err.Error()
		}
		return strings.TrimSpace(line)
	}
}

func (l *lossTest) readAll(when string) {
	l.t.Helper()
	for name, reads := range l.reads {
		if got := reads(); got != "hello" {
			l.t.Errorf("%s, the reader of the program by %s reads %q", when, name, got)
		}
	}
}

// served waits until status knows the programs, and returns their PIDs.
func (l *lossTest) served(when string) (pids []int) {
	l.t.Helper()
	eventually(l.t, when+" all volumes are served, by programs that are known", func() bool {
		pids = nil
		for _, p := range l.status().Programs {
			if p.State == "served" && p.PID != 0 {
				pids = append(pids, p.PID)
			}
		}
		return len(pids) == len(l.reads)
	})
	return pids
}

// killsPrograms kills all programs, whose launchers start others.
func (l *lossTest) killsPrograms(when string) {
	l.t.Helper()
	pids := l.served(when)
	for _, pid := range pids {
		must(l.t, unix.Kill(pid, unix.SIGKILL))
	}
	become(l.t, "Z", pids) // what is opened before is ESTALE
}

// loses kills some of the driver's processes at once, when all are there: of a number, its bits say
// which.
func (l *lossTest) loses(which int) {
	l.t.Helper()
	var pids []int
	eventually(l.t, "the driver has all its processes", func() bool {
		s := l.status()
		if s.Daemon.Active == nil || s.Daemon.Standby == nil || s.Mounter.PID == 0 || s.Mounter.Spare == 0 {
			return false
		}
		pids = []int{s.Daemon.Active.PID, s.Daemon.Standby.PID, s.Mounter.PID, s.Mounter.Spare}
		return true
	})
	var lost []int
	for i, pid := range pids {
		if which>>i&1 == 1 {
			lost = append(lost, pid)
		}
	}
	l.killAll(lost...)
}

const (
	all     = 0b1111
	mounter = 0b1100 // with its spare
)

// Whatever processes of the driver die at once, readers go on, and after the next call-out, the
// next death of each program costs them nothing.
func TestLossOfProcesses(t *testing.T) {
	t.Parallel()
	t.Run("FlexVolume", func(t *testing.T) {
		t.Parallel()
		l := newLossTest(t, false)
		for which := 1; which <= all; which++ {
			l.survives(which, func() {
				if output, err := l.command("restore").CombinedOutput(); err != nil || which&mounter == mounter && strings.Contains(string(output), "nothing was dead") {
					t.Errorf("restore: %v: %s", err, output)
				}
			})
		}
	})
	t.Run("CSI", func(t *testing.T) {
		t.Parallel()
		l := newLossTest(t, true)
		for _, which := range []int{all, mounter, all} {
			l.survives(which, func() { l.must(l.mount[0]...) })
		}
	})
}

func (l *lossTest) survives(which int, callOut func()) {
	l.t.Helper()
	what := fmt.Sprintf("the loss of %04b, standby and active last", which)
	l.loses(which)
	l.readAll("at once after " + what)
	callOut()
	l.readAll("after " + what + " and a call-out")
	l.killsPrograms("after " + what)
	l.readAll("after " + what + " and the death of the programs")
	if l.t.Failed() {
		l.t.FailNow()
	}
}

// Programs that have died while no process of the driver was left come back, and their readers with
// them.
func TestProgramsThatDieWhileNobodyIsLeft(t *testing.T) {
	t.Parallel()
	l := newLossTest(t, false)
	for _, which := range []int{all, mounter} {
		programs := l.served("before")
		l.loses(which)
		for _, pid := range programs {
			must(t, unix.Kill(pid, unix.SIGKILL))
		}
		become(t, "Z", programs)
		l.must(l.mount[0]...)
		l.readAll("after their death and a call-out")
		l.killsPrograms("then")
		l.readAll("after the death of the next programs")
	}
}

// An installer that may call the driver, as with healFromHost, finds that the mounter is lost. No
// call-out comes.
func TestTheInstallerFindsALostMounter(t *testing.T) {
	t.Parallel()
	l := newLossTest(t, false)
	l.watchedBy("env")
	l.loses(mounter)
	l.killsPrograms("when the installer has looked,")
	l.readAll("after the death of the programs")
}

// Who waits since a program died, when the mounter is lost, may get an error; who comes later waits
// for the next program.
func TestReadersOfADeadProgramWhenTheMounterIsLost(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	client, server := n.pod()
	l := &lossTest{node: n, reads: map[string]func() string{"descriptor": n.reader(client)}}
	end := n.serves(client, server)
	l.readAll("at first")
	l.served("at first")
	end()
	waits := make(chan string, 1)
	go func() { waits <- l.reads["descriptor"]() }()
	eventually(t, "the reader waits", func() bool { s := n.status().Programs; return len(s) == 1 && s[0].Waiting > 0 })
	l.loses(mounter)
	n.must("mount", client, options(podUID))
	eventually(t, "the next mounter knows of no program", func() bool { s := n.status().Programs; return len(s) == 1 && s[0].State == "waiting" })
	n.serves(client, server)
	if got := <-waits; got != "hello" && !strings.Contains(got, "not connected") && !strings.Contains(got, "connection abort") {
		t.Errorf("who has waited reads %q", got)
	}
	l.readAll("of the next program")
}
