package survive

import (
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"time"

	"example.com/pod-info-fuse/survive/internal/pair"
)

// Maintain starts the daemon and heals volumes when both its processes have died, and lets
// this version take over from another, unless that has just failed. Where the driver has
// never mounted anything, it does nothing.
func (n Node) Maintain() error {
	if used, err := n.used(); err != nil || !used {
		return err
	}
	n = n.begin()
	err := n.ensure(false)
	if errors.Is(err, errStopped) {
		return nil
	}
	if err == nil {
		_, err = n.upgrade(func() bool { return !n.upgradeInVain() })
	}
	n.logHealed(n.healOthers())
	n.forgetLingering(math.MaxInt)
	return err
}

// used tells whether the driver has ever mounted anything. Where there are no records,
// they may have been lost.
func (n Node) used() (bool, error) {
	if exists(n.Volumes().Dir) {
		return true, nil
	}
	count, err := n.Unrecorded()
	return count > 0, err
}

// Restore heals dead volumes, and those that have lost their record, and reports them.
func (n Node) Restore() ([]Healed, error) {
	if used, err := n.used(); err != nil || !used {
		return nil, err
	}
	n = n.begin()
	unlock, served, err := n.lockServed()
	if err != nil {
		return nil, err
	}
	if used, err := n.used(); err != nil || !used { // any more
		if err == nil {
			err = n.removeRunDir() // which the lock has made
		}
		unlock()
		return nil, err
	}
	healed, err := n.restore(served, true)
	unlock()
	if err != nil {
		return nil, err
	}
	n.reviveLog()
	if from, err := n.upgrade(n.companionLost); from != "" || err != nil {
		healed = append(healed, Healed{Path: "the daemon's link to its companion, which had died", Err: err})
	}
	healed = append(healed, n.healOthers()...)
	n.forgetLingering(math.MaxInt)
	return healed, nil
}

// Acquire makes sure that the node mount is there and served, and keeps Stop away until release
// is called, which heals dead mounts in containers. It is for a driver's own call-outs: those of
// [CallOuts] use the node by themselves.
func (n Node) Acquire() (release func(), err error) {
	if os.Geteuid() != 0 {
		return nil, errors.New("mounting needs root")
	}
	n = n.begin()
	for ensured := false; ; ensured = true {
		unlock, err := n.lock(shared)
		if err != nil {
			return nil, err
		}
		there, err := n.look()
		switch {
		case err == nil && there.seemsServed() && n.givenTried() && exists(n.Volumes().Dir) && !ensured:
			return unlock, nil
		case err == nil && ensured && there.device != 0:
			return func() { unlock(); n.logHealed(n.healOthers()) }, nil
		}
		unlock()
		if err == nil && ensured && time.Now().After(n.deadline) {
			err = fmt.Errorf("make sure that the daemon serves: %w", errNoTime)
		}
		if err != nil {
			return nil, err
		}
		if err := n.ensure(true); err != nil {
			return nil, err
		}
		if _, err := n.upgrade(func() bool { return !n.givenTried() }); err != nil {
			n.Log("%v", err) // volumes work with what the pair has
		}
	}
}

// errStopped says that Stop was faster.
var errStopped = errors.New("the driver was stopped meanwhile")

// ensure starts the daemon if it does not serve, and its companion, and heals dead mounts in our
// own namespace. The caller calls healOthers next, and has no lock. Where the driver has nothing, it
// starts the daemon only if somebody needs it, and returns errStopped otherwise.
func (n Node) ensure(needed bool) error {
	unlock, served, err := n.lockServed()
	if err != nil {
		return err
	}
	defer unlock()
	if !needed {
		if used, err := n.used(); err != nil {
			return err
		} else if !used {
			return errors.Join(errStopped, n.removeRunDir()) // which the lock has made
		}
	}
	healed, err := n.restore(served, false)
	n.logHealed(healed)
	return err
}

// lockServed takes the exclusive lock, and tells whether the daemon serves. It asks the daemon before it
// has the lock, and again if another call-out has changed the node mount since, or started the daemon.
func (n Node) lockServed() (unlock func(), served bool, err error) {
	for n = n.begin(); ; {
		whom, err := n.daemon()
		if err != nil {
			return nil, false, err
		}
		asked, served, err := n.served()
		if err != nil {
			return nil, false, err
		}
		unlock, err := n.lock(exclusive)
		if err != nil {
			return nil, false, err
		}
		now, err := n.look()
		if err == nil && now.device == asked && (served || now.locks.Active == whom.Active) {
			return unlock, served, nil
		}
		unlock()
		if err == nil && time.Now().After(n.deadline) { // others change it all the time
			err = fmt.Errorf("lock a daemon that was asked: %w", errNoTime)
		}
		if err != nil {
			return nil, false, err
		}
	}
}

// restore does the same, and reports what it healed. With all, it also looks for volumes
// whose record is lost, which costs time with the number of mounts on the node. Where all
// records may be lost, it does so anyway. The caller holds the exclusive lock, of lockServed.
func (n Node) restore(served, all bool) ([]Healed, error) {
	var err error
	if served && all {
		served, err = n.servesWhole()
	}
	if err == nil && served {
		_, err = n.ensureCompanion()
	}
	var adopted []Healed
	switch {
	case err != nil:
		return nil, err
	case !served:
		adopted, err = n.start()
	case all || !exists(n.Volumes().Dir):
		if err = makeDir(n.Volumes().Dir, n.gid(), readable); err == nil {
			adopted, err = n.adopt()
		}
	}
	if err != nil {
		return adopted, err
	}
	healed := n.heal()
	adopted = n.withoutUnmountedLost(adopted)
	healed = slices.DeleteFunc(healed, func(h Healed) bool { // one line for each is enough
		return slices.ContainsFunc(adopted, func(a Healed) bool { return a.Path == h.Path })
	})
	return append(adopted, healed...), nil
}

// served tells whether the node mount is there and answers, and its device number; 0: it is not there. If
// the daemon serves in another mount namespace, it mounts that in this one, too. It asks the mount itself, not the locks:
// the kernel answers at once when the last process that had the connection is gone.
//
// A healthy pair is never taken for dead, however loaded the node is, nor while one process
// takes over from the other: its answer comes late then, and served waits longer than the
// pair needs to replace a process that hangs (package pair, patience). A node that was
// suspended has not waited, see [mount.Point.Below]. A daemon that is silent for so long
// answers no pod either, and no standby is left to replace it.
func (n Node) served() (device uint64, served bool, err error) {
	// All questions of a call-out to a daemon that was there before share one wait.
	until := n.begin().deadline.Add(patience - callOutTimeout)
	if least := time.Now().Add(glance); until.Before(least) {
		until = least
	}
	for range 2 { // a dead mount is absent once it was asked
		there, err := n.look()
		if err == nil && there.device == 0 {
			there, err = n.attachFromElsewhere(there, until)
		}
		if err != nil || there.device == 0 || !exists(n.path("daemon.lock")) { // without that file, its processes cannot be found
			return there.device, false, err
		}
		limit := patience
		if there.locks.State() <= pair.Dead {
			limit = gone
		}
		if answers, err := n.answers(limit); err != nil || answers {
			return there.device, answers, err
		}
		device = there.device
	}
	return device, false, nil
}

// servesWhole tells whether no volume's root is bad, see [mount.Point.Bad]. A daemon that has
// answered so for one is not trusted with the others: another one is started.
func (n Node) servesWhole() (bool, error) {
	there, err := n.look()
	if err != nil {
		return false, err
	}
	ids, err := n.Volumes().IDs()
	if err != nil {
		return false, err
	}
	for _, id := range ids {
		record, err := n.Volumes().Get(id)
		if err != nil {
			continue // no daemon can serve it
		}
		point, err := openDir(record.Dir)
		if err != nil || point == nil {
			continue // status tells
		}
		bad := point.Bad() && point.Device() == there.device
		point.Close()
		if bad {
			n.Log("it has answered that the root of %s is no directory, as no honest version does: "+
				"another one is started", record.Dir)
			return false, nil
		}
	}
	return true, nil
}

// gone is how long to wait for an answer where no process seems to live that could give it:
// we may have asked before a new one had its lock.
const gone = 2 * time.Second
