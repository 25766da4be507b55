package survive

import (
	"errors"
	"fmt"
	"os"
)

// Companion is a process beside the pair, of the driver's own: one with rights that the pair must
// not have, for example. A call-out starts it, as root, and gives descriptors of it to the pair,
// such as an end of a pair of sockets and a socket that listens.
//
// Each process of the pair has the same descriptors, in [Site.CompanionFiles], and hands them on to the
// next: a standby takes over with what it has. The first process of a pair, and of another version,
// gets them from Give.
type Companion interface {
	// Ensure makes sure that the process is there, in this version. Each mount calls it, also several at
	// the same time, so it must be quick when all is well. Its error fails the mount. The identity is a short
	// text that is another one when what was given before is of no use any more: the pair is then
	// started anew, as in an upgrade. If that fails, the pair goes on with what it has, and so
	// does the one of another version that an upgrade could not replace.
	Ensure() (identity string, err error)
	// Identity returns that of the process that is there, and "" if there is none. It starts none.
	Identity() (string, error)
	// Give returns the descriptors for a process of the pair that is about to be started. It follows
	// Ensure. The caller closes them.
	Give() ([]*os.File, error)
	// Stop ends the process. The pair has ended, and will not be started any more.
	Stop() error
}

// ensureCompanion makes sure that the driver's companion is there, if it has one.
func (n Node) ensureCompanion() (identity string, err error) {
	if n.Companion == nil {
		return "", nil
	}
	if identity, err = n.Companion(n).Ensure(); err != nil {
		return "", fmt.Errorf("make sure that the daemon's companion is there: %w", err)
	}
	return identity, nil
}

func (n Node) stopCompanion() error {
	if n.Companion == nil {
		return nil
	}
	return n.Companion(n).Stop()
}

// stopIdleCompanion ends the companion, if there is no volume that it could be for.
func (n Node) stopIdleCompanion() error {
	ids, err := n.Volumes().IDs()
	others, othersErr := n.others()
	if err = errors.Join(err, othersErr); err != nil || len(ids)+len(others) > 0 {
		return err
	}
	return n.stopCompanion()
}

// companionLost tells whether the pair has descriptors of a companion that is not there any more. It makes sure that
// there is one.
func (n Node) companionLost() bool {
	identity, err := n.ensureCompanion()
	return err == nil && identity != n.companionNote()
}

// CompanionDue tells whether the companion has been lost, and the next call-out gives the pair another one.
func (n Node) CompanionDue() bool {
	noted := n.companionNote()
	if n.Companion == nil || noted == "" {
		return false
	}
	identity, err := n.Companion(n).Identity()
	return err == nil && identity != noted && (identity == "" || !n.failedUpgrade().inVain(n.inputIdentity()))
}

// companionNote is the identity of the companion that the pair was given descriptors of.
func (n Node) companionNote() string {
	noted, _ := os.ReadFile(n.path(noteOfCompanion))
	return string(noted)
}
