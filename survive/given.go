package survive

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/survive/internal/counters"
	"example.com/pod-info-fuse/survive/volume"
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
func (n daemon) give(knows bool) (g given, err error) {
	if err := checkConfig(n.Config); err != nil {
		return given{}, err
	}
	g.notes = map[string]string{}
	if n.Companion != nil {
		if g.notes[noteOfCompanion], err = n.ensureCompanion(); err != nil {
			return given{}, err
		}
		if g.files, err = n.Companion(n.Node).Give(); err != nil {
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
	if g.crash, problem = openCrash(n.path("crash")); problem != nil {
		n.Log("why the daemon dies is not logged: %v", problem) // volumes work without
	} else {
		logCrash(takeCrash(g.crash), n.Log) // of a process before this one
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

func (n daemon) InputStale() (stale, due bool) {
	identity := n.inputIdentity()
	stale = exists(n.RunDir) && n.note(noteOfInput) != identity
	return stale, stale && !n.failedUpgrade().inVain(identity)
}

func (n daemon) CompanionDue() bool {
	noted := n.note(noteOfCompanion)
	if n.Companion == nil || noted == "" {
		return false
	}
	identity, err := n.Companion(n.Node).Identity()
	return err == nil && identity != noted && (identity == "" || !n.failedUpgrade().inVain(n.inputIdentity()))
}

// noteStarted notes which daemon is to be started: its version, and the identities of what it is
// given. The notes hold once keep is called, which needs no space in the run directory: after a
// hand-over that was not noted, each call-out would replace the daemon.
func (n Node) noteStarted(notes map[string]string, fresh []string) (keep func() error, err error) {
	notes = maps.Clone(notes)
	notes[noteOfVersion] = n.Version
	for name, note := range notes {
		if err := volume.WriteFile(n.path(unkept(name)), []byte(note)); err != nil {
			n.dropNotes()
			return nil, fmt.Errorf("note the daemon's %s: %w", name, err)
		}
	}
	return func() (err error) {
		for _, name := range fresh {
			err = errors.Join(err, os.Rename(n.path(unkept(name)), n.path(name)))
		}
		for _, name := range slices.Sorted(maps.Keys(notes)) { // the version last, whose presence tells of all
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
}

// failure is the note of it, with the binary and the input that were to take over: the same would
// fail again.
type failure struct {
	FailedUpgrade
	By    string // see identity
	Input string // see inputIdentity
}

// inVain tells whether an attempt with this input would repeat the failed one.
func (f *failure) inVain(input string) bool {
	return f != nil && f.Input == input && time.Since(f.At).Abs() < upgradeInterval
}

// upgradeInterval is the time between two attempts at the same. A mount may have to wait for an
// attempt.
const upgradeInterval = time.Hour

// failedUpgrade returns what was noted; nil: nothing.
func (n Node) failedUpgrade() *failure {
	failed := new(failure)
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

// logLastCrash logs the crash of a daemon of which nobody is left, and removes its file: the daemon
// that is to be started gets one of its own.
func (n daemon) logLastCrash() {
	file, err := os.OpenFile(n.path("crash"), os.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return
	}
	defer file.Close()
	logCrash(takeCrash(file), n.Log)
	_ = os.Remove(n.path("crash"))
}
