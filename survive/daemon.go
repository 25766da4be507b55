package survive

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/survive/internal/pair"
)

// glance is how long to wait for a report that nothing depends on.
const glance = time.Second

// report asks the active process about the pair. If its log does not reach syslog, report
// connects it again: the process itself may not connect. It asks twice at most, and waits for
// each answer until the limit.
func (n Node) report(limit time.Duration) (*pair.Report, error) {
	report, err := n.pair().Ask(limit)
	if err == nil && report.LogUnheard && n.pair().ReconnectLog() == nil {
		return n.pair().Ask(limit) // the question makes it write the lines that it has kept
	}
	return report, err
}

// reviveLog has the daemon write the lines that it has kept, if there is somebody to hear them
// now.
func (n Node) reviveLog() {
	if n.log.HasListener() {
		_, _ = n.report(glance)
	}
}

// daemon finds who has the locks of the daemon's pair.
func (n Node) daemon() (pair.Locks, error) {
	locks, err := n.pair().Find()
	if err != nil {
		return pair.Locks{}, fmt.Errorf("find the daemon: %w", err)
	}
	return locks, nil
}

const (
	// polite is how long to wait for a daemon that was asked to end, until it is killed; and
	// for one of unknown PID, which cannot be killed.
	polite = time.Second
	// stubborn is how long to wait for one that was killed.
	stubborn = 5 * time.Second
)

// clear removes the node mount and ends the daemon, whatever state they are in. Volumes
// that are bound somewhere are dead afterwards.
//
// It does not depend on the daemon's end. The connection is aborted, which frees
// processes that wait for themselves in the kernel; and the next daemon gets a new
// daemon.lock, so that no process with a lock of the old file concerns it.
func (n Node) clear() error {
	locks, err := n.daemon()
	if err != nil {
		return err
	}
	if locks.State() > pair.Stopped {
		_ = n.pair().Stop() // one that does not listen is killed below
	}
	if err := n.abort(); err != nil {
		return err
	}
	if err := n.end(); err != nil {
		return err
	}
	for _, name := range []string{"daemon.lock", stateFile} {
		if err := os.Remove(n.path(name)); err != nil && !os.IsNotExist(err) {
			return err
		}
	}
	return nil
}

// abort ends the connection of the node mount, and removes the mount.
func (n Node) abort() error {
	for try := 1; ; try++ {
		point, err := openMounted(n.fsPath())
		if err != nil || point == nil {
			return err
		}
		err = errors.Join(point.Abort(), point.Detach())
		point.Close()
		// EINVAL: somebody has unmounted it since it was opened. Nobody knows who.
		if err != nil && (try == 10 || !errors.Is(err, unix.EINVAL)) {
			return err
		}
	}
}

// end waits until no process of the daemon is left, and kills those that do not end by
// themselves: the holders of the locks, and the processes in the daemon's cgroup. Without
// such a cgroup, it waits for a standby that has just been born, and that exits when it finds
// itself alone.
func (n Node) end() error {
	group := n.group()
	// unseen is how often in a row no holder was seen. Once may be one that has ended since the kernel named it.
	unseen := 0
	for begun := time.Now(); ; time.Sleep(2 * time.Millisecond) {
		locks, err := n.daemon()
		if err != nil {
			return err
		}
		ended, err := n.pair().Ended()
		if err != nil {
			return err
		}
		left := group.Processes()
		if ended && !locks.Held() && len(left) == 0 {
			n.noteGroup(nil)
			return nil
		}
		state := locks.State()
		if unseen++; state != pair.Unseen {
			unseen = 0
		}
		switch took := time.Since(begun); {
		case took < polite && state > pair.Stopped, unseen == 1:
		case took > stubborn, unseen > 0 && len(left) == 0:
			n.Log("somebody is left of the daemon that is replaced, and does not end; its locks have %s and %s, in its cgroup are processes %v",
				locks.Active, locks.Standby, left)
			return nil
		default:
			// The standby first, or it would take over.
			if err := errors.Join(n.kill(locks.Standby), n.kill(locks.Active)); err != nil {
				return err
			}
			_ = n.killAll(group, left) // a process that it cannot kill is left
		}
	}
}

// kill kills the holder of a lock, if that is a process of the daemon's. Another process may have
// the number; see pair.Holder.
func (n Node) kill(holder pair.Holder) error {
	return n.pair().Kill(holder.PID, func() bool { return true })
}
