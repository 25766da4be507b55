package pair

import (
	"errors"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// attack does what an attacker in a process may do to the pair. Where the version of the
// build is "says:VERSION", it claims to be that one, and where it is "names:PID", to be that
// process.
func (p *process) attack() {
	if claimed, claims := strings.CutPrefix(p.Version, "says:"); claims {
		p.self.Version = claimed
	}
	if named, names := strings.CutPrefix(p.Version, "names:"); names {
		p.self.PID, _ = strconv.Atoi(named)
	}
	p.remain()
	p.flood()
}

// isStandby tells whether a process of the pair has started this one, and no call-out.
func (p *process) isStandby() bool { return slices.Equal(os.Args[2:], p.Args) }

// flood has a standby send ping after ping, and read no answer, where the version of the build is
// "floods".
func (p *process) flood() {
	if p.Version != "floods" || !p.isStandby() {
		return
	}
	p.starter.send(message{Kind: ready, Process: &p.self})
	var err error
	for err == nil || errors.Is(err, unix.EAGAIN) {
		err = p.starter.(*socket).conn.Send(pingPacket)
	}
	p.Log("attack: a flood ends: %v", err)
	os.Exit(1)
}

// remain has a standby start an unknown process, where the version of the build is "remains":
// it has no lock and no descriptor of the pair's, and never ends.
func (p *process) remain() {
	const remains = "REMAINS=1"
	switch {
	case p.Version != "remains" || !p.isStandby():
	case slices.Contains(os.Environ(), remains):
		for _, fd := range []int{deviceFD, linkFD, lockFD, controlFD, logFD} {
			unix.Close(fd)
		}
		select {}
	default:
		environment = append(environment, remains)
		_, _, err := p.spawn()
		environment = environment[:1]
		p.Log("attack: a process that remains: %v", err)
	}
}

// stay goes on serving when another process does, where the version of the build is
// "stays", and leaves a child that would do the same after its end.
func (a *active) stay() {
	for a.Version == "blocks" { // it has handed over, and makes reads wait for all who have the connection
		_ = unix.SetNonblock(deviceFD, false)
	}
	if a.Version != "stays" {
		return
	}
	a.startStandby()
	if m, open := <-a.standby.inbox(); open && m.Kind == ready {
		a.standby.adopt(*m.Process, a.history)
	}
	s, err := a.Open(deviceFD)
	if err == nil {
		err = s.Serve()
	}
	a.Log("attack: it does not stay: %v", err)
}

// pretends sends the new process away and says that it has handed over, where the version of the
// build is "pretends:ends" or "pretends:stays". Where it is "pretends:silent", it says nothing, and
// goes on.
func (a *active) pretends() (does, done bool) {
	how, does := strings.CutPrefix(a.Version, "pretends:")
	if !does {
		return false, false
	}
	a.next.dismiss()
	a.next = nil
	if how == "silent" {
		return true, false
	}
	if how == "ends" {
		a.dismiss()
		_ = a.stop()
	}
	a.upgrade.client.reply(reply{})
	return true, how == "ends"
}
