package survive

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"example.com/pod-info-fuse/survive/internal/counters"
	"example.com/pod-info-fuse/survive/internal/pair"
	"example.com/pod-info-fuse/survive/volume"
)

// given is what a process of the pair is started with, beside the device, the lock and the control
// socket. If something else is there by now, the next call-out starts the pair anew, as in an
// upgrade.
type given struct {
	pair.Resources
	fresh []string // files that are not kept yet
	notes map[string]string
}

// give opens what a process of the pair is started with. With knows, the process has the table of
// the requests that processes have died of.
func (n daemon) give(knows bool) (g given, err error) {
	if err := checkConfig(n.Config); err != nil {
		return given{}, err
	}
	g.notes, g.Config = map[string]string{noteOfVersion: n.Version}, n.Config
	if n.Companion != nil {
		if g.notes[noteOfCompanion], err = n.ensureCompanion(); err != nil {
			return given{}, err
		}
		if g.Given, err = n.Companion(n.Node).Give(); err != nil {
			return given{}, fmt.Errorf("get the descriptors of the daemon's companion: %w", err)
		}
	}
	if g.Log, err = n.log.Open(); err != nil {
		g.close()
		return given{}, fmt.Errorf("open the log: %w", err)
	}
	var problem error
	if g.Input, g.notes[noteOfInput], problem = n.openInput(); problem != nil && !errors.Is(problem, fs.ErrNotExist) {
		n.Log("it starts without the directory %s: %v", n.Input, problem)
	}
	if knows {
		g.Counters, problem = counters.Open(n.path(counters.FileName))
	} else {
		g.Counters, problem = counters.Fresh(n.path(unkept(counters.FileName)), n.path(counters.FileName))
		if problem == nil {
			g.fresh = append(g.fresh, counters.FileName)
		}
	}
	if problem != nil {
		n.Log("what the daemon does is not counted: %v", problem) // volumes work without
	}
	if g.Crash, problem = openCrash(n.path("crash")); problem != nil {
		n.Log("why the daemon dies is not logged: %v", problem) // volumes work without
	} else {
		logCrash(takeCrash(g.Crash), n.Log) // of a process before this one
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
		g.Given = append(g.Given, state)
	} else {
		state.Close()
	}
	return g, nil
}

func (g given) close() {
	for _, file := range slices.Concat(g.Given, []*os.File{g.Log, g.Input, g.Counters, g.Crash}) {
		file.Close()
	}
}

// isGiven tells whether the pair was given what is there now. It makes sure that the companion is.
func (n daemon) isGiven() (bool, error) {
	companion, err := n.ensureCompanion()
	if err != nil {
		return false, err
	}
	return (n.Companion == nil || companion == n.note(noteOfCompanion)) && n.note(noteOfInput) == n.inputIdentity(), nil
}

// ensureCompanion makes sure that the driver's companion is there, if it has one.
func (n daemon) ensureCompanion() (identity string, err error) {
	if n.Companion == nil {
		return "", nil
	}
	if identity, err = n.Companion(n.Node).Ensure(); err != nil {
		return "", fmt.Errorf("make sure that the daemon's companion is there: %w", err)
	}
	return identity, nil
}

func (n daemon) stopCompanion() error {
	if n.Companion == nil {
		return nil
	}
	return n.Companion(n.Node).Stop()
}

func (n daemon) InputStale() bool {
	return exists(n.RunDir) && n.note(noteOfInput) != n.inputIdentity()
}

func (n daemon) Due() bool {
	lost, companion := false, ""
	if noted := n.note(noteOfCompanion); n.Companion != nil && noted != "" {
		var err error
		companion, err = n.Companion(n.Node).Identity()
		if lost = err == nil && companion != noted; lost && companion == "" {
			return true
		}
	}
	if !lost && !n.InputStale() {
		return false
	}
	failed := n.failedUpgrade() // to give it just that, or something else
	return !failed.lately() || !strings.HasSuffix(failed.By, companion+" "+n.inputIdentity())
}

// noteStarted notes which daemon is to be started: its version, and the identities of what it is
// given. The notes hold once keep is called, which needs no space in the run directory: after a
// hand-over that was not noted, each call-out would replace the daemon.
func (n Node) noteStarted(g given) (keep func() error, err error) {
	for name, note := range g.notes {
		if err := volume.WriteFile(n.path(unkept(name)), []byte(note)); err != nil {
			n.dropNotes()
			return nil, fmt.Errorf("note the daemon's %s: %w", name, err)
		}
	}
	return func() (err error) {
		// The version last, whose presence tells of all.
		for _, name := range slices.Concat(g.fresh, slices.Sorted(maps.Keys(g.notes))) {
			err = errors.Join(err, os.Rename(n.path(unkept(name)), n.path(name)))
		}
		return err
	}, nil
}

func (n Node) dropNotes() {
	for _, name := range []string{noteOfCompanion, counters.FileName, stateFile, noteOfInput, noteOfVersion} {
		_ = os.Remove(n.path(unkept(name)))
	}
}

// FailedUpgrade is the last attempt to replace the daemon, if it failed.
type FailedUpgrade struct {
	At     time.Time
	Reason string
	By     string // identifies what was to take over: the same would fail again
}

// lately tells whether that was less than an hour ago: nothing is tried again meanwhile, because a
// mount may have to wait for an attempt.
func (f *FailedUpgrade) lately() bool { return f != nil && time.Since(f.At).Abs() < time.Hour }

// failedUpgrade returns what was noted; nil: nothing.
func (n Node) failedUpgrade() *FailedUpgrade {
	failed := new(FailedUpgrade)
	if err := json.Unmarshal([]byte(n.note("upgrade-failed")), failed); err != nil {
		return nil
	}
	return failed
}

func (n Node) forgetFailedUpgrade() { _ = os.Remove(n.path("upgrade-failed")) }

// withLastWords adds to an error why a process has ended that did not begin to serve. The kernel
// wrote that before it told of the end.
func withLastWords(err error, crash *os.File) error {
	if err == nil {
		return nil
	}
	words := lastWords(string(takeCrash(crash)))
	if words == "" {
		return err
	}
	return fmt.Errorf("%w; it said %.300q", err, words)
}
