package survive

import (
	"fmt"
	"os"

	"example.com/pod-info-fuse/survive/internal/counters"
)

// given is what a process of the pair is started with, beside what serves. If something else is
// there by now, the next call-out starts the pair anew, as in an upgrade.
type given struct {
	input    *os.File   // see openInput
	counters *os.File   // nil: nothing is counted
	crash    *os.File   // see crash.go; nil: the text of a crash is lost
	files    []*os.File // of the companion, and the state
	fresh    []string   // files that are not kept yet
	notes    map[string]string
}

// give opens it for a process that is about to be started. With knows, it is told which requests
// processes have died of.
func (n Node) give(knows bool) (g given, err error) {
	if err := n.checkConfig(); err != nil {
		return given{}, err
	}
	g.notes = map[string]string{}
	if n.Companion != nil {
		if g.notes[noteOfCompanion], err = n.ensureCompanion(); err != nil {
			return given{}, err
		}
		if g.files, err = n.Companion(n).Give(); err != nil {
			return given{}, fmt.Errorf("get the descriptors of the daemon's companion: %w", err)
		}
	}
	g.input, g.notes[noteOfInput] = n.giveInput()
	var problem error
	if knows {
		g.counters, problem = counters.Open(n.path(counters.FileName))
	} else {
		g.counters, problem = counters.Fresh(n.path(unkept(counters.FileName)), n.path(counters.FileName))
		if problem == nil {
			g.fresh = append(g.fresh, counters.FileName)
		}
	}
	if problem != nil {
		n.Log("what the daemon does is not counted: %v", problem) // volumes work without
	}
	if g.crash, problem = openCrash(n.crashFile()); problem != nil {
		n.Log("why the daemon dies is not logged: %v", problem) // volumes work without
	} else {
		n.logText(takeCrash(g.crash)) // of a process before this one
	}
	state, fresh, err := n.openState()
	if err != nil {
		g.close()
		return given{}, fmt.Errorf("make the file of the driver's state: %w", err)
	}
	if fresh {
		g.fresh = append(g.fresh, stateFile)
	}
	if n.State > 0 {
		g.files = append(g.files, state)
	} else {
		state.Close()
	}
	return g, nil
}

func (g given) close() {
	g.input.Close()
	g.counters.Close()
	g.crash.Close()
	for _, file := range g.files {
		file.Close()
	}
}

// isGiven tells whether the pair was given what is there now. It makes sure that the companion is.
func (n Node) isGiven() (bool, error) {
	companion, err := n.ensureCompanion()
	if err != nil {
		return false, err
	}
	return (n.Companion == nil || companion == n.companionNote()) && n.inputGiven(), nil
}

// givenTried tells whether the pair was given that, or an attempt to do so has failed.
func (n Node) givenTried() bool {
	given, err := n.isGiven()
	return err == nil && (given || n.upgradeInVain())
}
