package survive

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/internal/mount"
	"example.com/pod-info-fuse/survive/internal/pair"
)

// refuseElsewhere fails if the node mount is absent here because a daemon serves it in another
// mount or PID namespace: a second daemon would end the first one. Package command executes
// call-outs in the namespaces of process 1, so such a daemon was started by a command in another
// namespace, or by a version before 0.2.0. It waits for the daemon's answer until the given time.
func (n healing) refuseElsewhere(locks pair.Locks, until time.Time) error {
	state := locks.State()
	if state <= pair.Dead {
		return nil
	}
	// A daemon that was taken over has others named by its locks, and answers what it likes. But
	// root has noted its cgroup, which it cannot leave.
	for _, pid := range n.group().Processes() {
		if where, err := mount.Of(pid); err == nil && where.Ours {
			return nil
		}
	}
	if state == pair.Unseen { // of another PID namespace, or somebody who keeps a lock
		if max(locks.Active.PID, locks.Standby.PID) > 0 { // that process is in this one
			return nil
		} else if _, err := n.pair().Ask(time.Until(until)); err != nil && !isRefusal(err) {
			return nil
		}
		return fmt.Errorf("the daemon serves, but %s is not mounted in this mount namespace, and the daemon is in another "+
			"PID namespace; call the driver in the namespaces in which the daemon was started, or end it there with %s stop",
			n.fsPath(), n.Program)
	}
	holder := locks.Active
	if holder.State() < state {
		holder = locks.Standby
	}
	where, err := mount.Of(holder.PID)
	switch {
	case where.Ours, errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ESRCH): // it ends, or has ended
		return nil
	case err != nil:
		return fmt.Errorf("find the daemon's mount namespace: %w", err)
	}
	// The kernel may name a process of a pod's, which has no such mount: see pair.Holder.
	mounted, err := where.Mounts(n.fsType(), n.Name.String())
	if !slices.ContainsFunc(mounted, func(info *mountinfo.Info) bool { return info.Mountpoint == n.fsPath() && info.Root == "/" }) {
		return err
	}
	return fmt.Errorf("the daemon serves in another mount namespace, that of process %d: drain the node, and call "+
		"%s stop --force --driver %s on it", holder.PID, n.Program, n.Name)
}

// isRefusal tells whether the daemon lives and has answered, but not what it was asked for.
func isRefusal(err error) bool { return errors.As(err, new(pair.Refusal)) }
