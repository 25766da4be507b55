package survive

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/survive/internal/cgroup"
	"example.com/pod-info-fuse/survive/internal/pair"
	"example.com/pod-info-fuse/survive/volume"
)

// Upgrade lets this version take over from the one that serves, if that is
// another one.
func (n Node) Upgrade() (from string, err error) {
	c := n.begin()
	if !exists(c.Volumes().Dir) {
		return "", nil
	}
	from, err = c.upgrade(func() bool { return true })
	c.logHealed(c.heal(nil)) // where it had to be started anew
	return from, err
}

// upgrade also starts a daemon of this version anew if it is to be given something else. Where the
// caller does not want it, it only looks. The caller has no lock: the daemon is asked first,
// without one.
func (n callOut) upgrade(wanted func() bool) (from string, err error) {
	unlock, err := n.lock(shared)
	if err != nil {
		return "", err
	}
	_, due, err := n.upgradeDue()
	due = due && wanted()
	unlock()
	if err != nil || !due {
		return "", err
	}
	problem, begun := n.mayReplace(), time.Now()
	if from, err = n.tryUpgrade(problem); err == nil || !isSilent(err) {
		return from, err
	}
	// On a loaded node, an honest daemon may only be late. It is asked once more, without the lock,
	// and has the time for that which the attempt took.
	n.deadline = n.until().Add(time.Since(begun))
	adopted, ensureErr := n.ensure(false)
	if ensureErr != nil {
		return from, errors.Join(err, ensureErr)
	}
	n.logHealed(n.heal(adopted))
	unlock, lockErr := n.lock(shared)
	if lockErr != nil {
		return from, errors.Join(err, lockErr)
	}
	defer unlock()
	if _, due, dueErr := n.upgradeDue(); due || dueErr != nil {
		return from, errors.Join(err, dueErr)
	}
	return from, nil // it did not answer, and one of this version was started
}

// tryUpgrade has a daemon of this version take over, unless there is a problem, and notes a
// failure.
func (n callOut) tryUpgrade(problem error) (from string, err error) {
	unlock, err := n.lock(exclusive)
	if err != nil {
		return "", err
	}
	defer unlock()
	from, due, err := n.upgradeDue()
	if err != nil || !due { // another call-out was faster
		return "", err
	}
	if err = problem; err == nil {
		err = n.replaceDaemon()
	}
	if err == nil {
		return from, nil
	}
	if from == n.Version {
		err = fmt.Errorf("start version %s anew, with what it is to be given now: %w", from, err)
	} else {
		err = fmt.Errorf("upgrade from version %s to %s: %w", from, n.Version, err)
	}
	return from, errors.Join(err, n.noteFailedUpgrade(err))
}

// isSilent tells whether an upgrade has failed because the process that is to hand over says
// nothing.
func isSilent(err error) bool {
	var problem pair.Unserved
	return errors.As(err, &problem) && problem.Silent()
}

// upgradeDue tells whether the daemon is to be replaced, and its version. It goes by the one that
// root has noted: a daemon that claims another one is replaced all the same. So is one whose start
// was noted, but not its end: a call-out was killed in an upgrade. The caller has a lock, or the
// companion might be started for a driver that is being stopped.
func (n callOut) upgradeDue() (from string, due bool, err error) {
	if locks, err := n.locks(); err != nil || !locks.Held() {
		return "", false, err
	}
	given, err := n.isGiven()
	if err != nil {
		return "", false, err
	}
	from = cmp.Or(n.note(noteOfVersion), "unknown") // somebody has removed the note
	if from == n.Version && given && !exists(n.path(unkept(noteOfVersion))) {
		n.forgetFailedUpgrade() // the failed change has been taken back
		return from, false, nil
	}
	return from, true, nil
}

// mayReplace tells whether this version can read all records, and the daemon answers. It does so
// late on a loaded node, and while a standby replaces a process that hangs. An answer that says no
// comes from one that lives, and the upgrade itself tells why.
func (n callOut) mayReplace() error {
	if err := n.Volumes().Check(n.CheckRecord); err != nil {
		return err
	}
	if _, err := n.pair().Ask(n.within(stepTimeout)); err != nil && !isRefusal(err) {
		return fmt.Errorf("ask the daemon, which is to hand over, for %v: %w", stepTimeout, err)
	}
	return nil
}

// upgradeTimeout is how long an upgrade may take, also where the processes that are to hand over
// die one after the other. The caller has locked the run directory meanwhile.
const upgradeTimeout = 15 * time.Second

// replaceDaemon has a daemon of this version take over. The caller holds the exclusive lock.
func (n callOut) replaceDaemon() error {
	given, err := n.give(n.note(noteOfVersion) == n.Version) // what has ended one version may not end another
	if err != nil {
		return err
	}
	defer given.close()
	keepNotes, err := n.noteStarted(given)
	if err != nil {
		return err
	}
	defer n.dropNotes() // where they are not kept
	there, err := n.look()
	if err != nil {
		return err
	}
	var ours cgroup.Group
	var escaped error
	left, err := n.pair().Upgrade(there.device, pair.Successor{
		Args: n.firstArgs(), Version: n.Version, Resources: given.Resources,
		Settle: func(pid int) (err error) { ours, escaped, err = n.settle(pid); return err },
		Sweep:  func() { n.endBefore(ours) },
	}, time.Now().Add(upgradeTimeout))
	if errors.As(err, new(pair.Unserved)) && !isSilent(err) {
		n.Log("version %s does not serve, though the process before has left its place to it; it is started anew: %v", n.Version, err)
		adopted, err := n.start()
		n.logHealed(adopted) // the caller heals next
		return err
	} else if err != nil {
		return withLastWords(err, given.Crash)
	}
	// It serves. A later failure is no failed upgrade.
	n.forgetFailedUpgrade()
	n.noteCgroup(escaped)
	if err := errors.Join(left, keepNotes()); err != nil {
		n.Log("version %s serves, but: %v", n.Version, err)
	}
	return nil
}

// upgradeInVain tells whether this binary, as it is now, has failed to take over
// lately. The caller has a lock, as for upgradeDue.
func (n callOut) upgradeInVain() bool {
	failed := n.failedUpgrade()
	return failed.lately() && failed.By == n.identity()
}

// identity identifies everything that decides whether this binary can take over, and with what.
func (n callOut) identity() string {
	var stat unix.Stat_t
	if err := unix.Stat("/proc/self/exe", &stat); err != nil {
		return ""
	}
	// Not its times: the installer touches it. What the pair is given stands at the end; see Due.
	companion, _ := n.ensureCompanion()
	return fmt.Sprintf("%s %d:%d %d %o %q %+v%s %s", n.Version, stat.Dev, stat.Ino, stat.Size, stat.Mode, n.Label, n.log, companion, n.inputIdentity())
}

func (n callOut) noteFailedUpgrade(reason error) error {
	note, err := json.Marshal(FailedUpgrade{time.Now().Round(0), reason.Error(), n.identity()})
	if err == nil {
		err = volume.WriteFile(n.path("upgrade-failed"), note)
	}
	if err != nil {
		return fmt.Errorf("note that the upgrade failed: %w", err)
	}
	return nil
}

// giveAnew starts the daemon anew if it lacks what it is to be given, unless a try was in vain.
func (n callOut) giveAnew() (from string, err error) {
	return n.upgrade(func() bool { return !n.givenTried() })
}

// givenTried tells whether the pair has what it is to be given, or a try to give it was in vain.
func (n callOut) givenTried() bool {
	given, err := n.isGiven()
	return err == nil && (given || n.upgradeInVain())
}
