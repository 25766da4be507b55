package daemon

import (
	"time"

	"golang.org/x/sys/unix"
)

const (
	// beat is how often a standby asks for a sign of life.
	beat = time.Second / 2
	// patience is how many beats pass without one until the active process is
	// taken for hung. Beats are counted and not seconds, so that a machine that
	// was suspended has not lost any.
	patience = 10
	// dying is how many more pass until one that was killed need not be waited for.
	// None of its threads runs any more then. But one may wait in the kernel, for the
	// answer to a request that nobody serves, and keep all that the process has open.
	dying = 2
)

// standBy waits until this process must take over, and returns why. "" means
// that it is not needed any more.
func (p *process) standBy() (Cause, error) {
	switch adopted, err := p.awaitAdoption(); {
	case err != nil:
		return "", err
	case adopted == orphaned && p.alone():
		return Crash, nil
	case adopted != wanted:
		return "", nil
	}
	ticker := time.NewTicker(beat)
	defer ticker.Stop()
	cause := Crash
	killed := false
	for silent := 0; ; {
		select {
		case m, open := <-p.starter.messages:
			switch {
			case !open:
				return cause, nil
			case m.Kind == pong:
				silent = 0
			case m.Kind == remember:
				p.history = *m.History
			case m.Kind == takeOver:
				p.history = *m.History
				if p.history.Last == nil {
					return Started, nil
				}
				return Planned, nil
			case m.Kind == leave:
				return "", nil
			}
		case <-ticker.C:
			switch {
			case silent == patience:
				// Its death ends the link, and we take over.
				cause = Hang
				killed = p.killActive()
			case silent == patience+dying && killed:
				return cause, nil
			}
			silent++
			p.starter.send(message{Kind: ping})
		case <-p.terminate:
			return "", nil
		}
	}
}

// adoption is what became of a process that said that it is ready.
type adoption int

const (
	wanted   adoption = iota // it is the standby
	unwanted                 // it is to end
	orphaned                 // the starter died before it said either
)

// awaitAdoption waits until the starter wants this process for its standby.
func (p *process) awaitAdoption() (adoption, error) {
	for {
		select {
		case m, open := <-p.starter.messages:
			if !open {
				return orphaned, nil
			}
			if m.Kind == standBy {
				p.history = *m.History
				// The standby before us is leaving.
				return wanted, acquire(p.resources.Lock, standbyByte)
			}
			if m.Kind == leave {
				return unwanted, nil
			}
		case <-p.terminate:
			return unwanted, nil
		}
	}
}

// alone tells whether nobody else is there to take over from a starter that
// has died: in an upgrade, the standby of the old version is.
func (p *process) alone() bool {
	for deadline := time.Now().Add(beat); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		standby, err := holder(p.resources.Lock, standbyByte)
		if err != nil || standby != 0 {
			return false
		}
		if active, err := holder(p.resources.Lock, activeByte); err != nil || active == 0 {
			return err == nil // the starter's lock is gone with it
		}
	}
	return false
}

// killActive kills whoever holds the lock of the active process: a process
// that has stopped or hangs does not end otherwise. It reports whether there was one.
func (p *process) killActive() bool {
	pid, err := holder(p.resources.Lock, activeByte)
	if err == nil && pid != 0 {
		p.Log("the active process %d gives no sign of life: it is killed", pid)
		err = unix.Kill(pid, unix.SIGKILL)
	}
	if err != nil {
		p.Log("kill the active process: %v", err)
	}
	return err == nil && pid != 0
}
