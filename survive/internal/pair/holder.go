package pair

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"example.com/pod-info-fuse/internal/filelock"
	"example.com/pod-info-fuse/internal/proc"
)

// Holder is the process that has a lock, as far as the kernel tells.
type Holder struct {
	Held bool
	// PID of the process that took the lock; 0 if this PID namespace does not show it. Do not
	// believe it: the lock belongs to a table of descriptors, which processes can share
	// (CLONE_FILES), and stays when the one that took it has ended. Another process may have
	// the number by now.
	PID  int
	user uint32 // the daemon's
}

// holderOf asks the kernel for the holder of a byte's lock.
func holderOf(file *os.File, b int64) (Holder, error) {
	pid, held, err := filelock.Holder(file, b, 1)
	return Holder{Held: held, PID: pid}, err
}

// State is the state of a lock's holder, from the worst to the best: up to Dead it cannot
// serve, and up to Stopped it does not answer. A holder that we cannot see may serve and
// answer.
type State int

const (
	Nobody  State = iota // no process has the lock
	Dead                 // was killed, and cannot end
	Stopped              // by SIGSTOP or a debugger
	Unseen               // not a process of the daemon's that we can see
	Alive
)

// State looks at the process. That costs some ten microseconds.
func (h Holder) State() State {
	if !h.Held {
		return Nobody
	}
	if h.PID == 0 {
		return Unseen
	}
	status, err := proc.StatusIn(fmt.Sprintf("/proc/%d", h.PID))
	// If the process has ended, another one has its descriptors. The daemon is in our user
	// namespace, and its filter does not let it make one; in a user namespace of his own,
	// anybody can be our user, and mount anything.
	if err != nil || !proc.SharesUsers(h.PID) {
		return Unseen
	}
	return stateOf(status, h.user)
}

// stateOf judges a status, which is that of the first thread. If only that thread has ended,
// it is a zombie; if it waits in the kernel, SIGKILL is pending.
func stateOf(fields proc.Status, daemon uint32) State {
	user, _, _ := strings.Cut(fields["Uid"], "\t")
	switch state := fields["State"]; {
	case user != strconv.FormatUint(uint64(daemon), 10):
		return Unseen
	case fields.Ended(), fields.Killed():
		return Dead
	case strings.HasPrefix(state, "T"), strings.HasPrefix(state, "t"):
		return Stopped
	}
	return Alive
}

// String is for the log.
func (h Holder) String() string {
	switch {
	case !h.Held:
		return "nobody"
	case h.PID == 0:
		return "an unknown process"
	}
	return fmt.Sprintf("process %d", h.PID)
}
