package survive

import (
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/internal/devfuse"
	"example.com/pod-info-fuse/internal/mount"
	"example.com/pod-info-fuse/selinux"
	"example.com/pod-info-fuse/survive/hold"
	"example.com/pod-info-fuse/survive/internal/connection"
	"example.com/pod-info-fuse/survive/internal/metrics"
	"example.com/pod-info-fuse/survive/internal/pair"
	"example.com/pod-info-fuse/survive/volume"
)

// start mounts the node's file system and starts its daemon. The caller holds
// the exclusive lock, and heals next. When it fails, it leaves nothing behind but the companion,
// which the next attempt needs and Stop ends. It returns what adopt does.
func (n callOut) start() (adopted []Healed, err error) {
	// A daemon that died, or lost its mount, may have left something.
	if err := n.retireNodeMount(); err != nil {
		return nil, err
	}
	if err := n.clear(); err != nil {
		return nil, err
	}
	if err := n.makeDirs(); err != nil {
		return nil, err
	}
	if err := n.chooseUser(); err != nil {
		return nil, err
	}
	// Before it serves: a mount that finds a daemon which does looks for no lost records.
	if adopted, err = n.adopt(); err != nil {
		return adopted, err
	}
	if err := metrics.CreateCalls(n.path(metrics.CallsFileName)); err != nil {
		n.Log("call-outs are not counted: %v", err) // volumes work without
	}
	serves := false
	defer func() {
		if !serves { // also when a driver's file system panics
			err = errors.Join(err, n.clear())
		}
	}()
	err = n.mountAndServe()
	serves = err == nil
	return adopted, err
}

// mountAndServe mounts the file system, and leaves the descriptor that serves it to the daemon:
// when that dies, so does the connection. A process that asks the file system must not have it:
// killed while the daemon dies, too, it would keep the connection that it waits for.
func (n callOut) mountAndServe() error {
	device, err := n.mountLabelled()
	if err != nil {
		return err
	}
	defer unix.Close(device)
	files := n.shownFileSystem()
	if files == nil {
		return errNoFileSystem
	}
	agreed, err := connection.Handshake(device, files, n.options(), stepTimeout)
	if err != nil {
		return fmt.Errorf("mount %s: %w", n.fsPath(), err)
	}
	if _, holds := files.(hold.Holder); holds && agreed.RequestTimeout > 0 {
		n.Log("the kernel aborts a FUSE connection that leaves a request without an answer for %d seconds (sysctl fs.fuse.max_request_timeout, or fs.fuse.default_request_timeout): nobody waits for longer than %v",
			agreed.RequestTimeout, agreed.HoldTimeout())
	}
	if err := volume.WriteFile(n.path("connection.json"), agreed.Encode()); err != nil {
		return fmt.Errorf("record the connection: %w", err)
	}
	return n.startDaemon(device)
}

// startDaemon starts the daemon's pair on the device and returns when it
// serves.
func (n callOut) startDaemon(device int) error {
	lock, err := n.pair().OpenLock()
	if err != nil {
		return err
	}
	defer lock.Close()
	control, err := n.listen()
	if err != nil {
		return fmt.Errorf("make the control socket: %w", err)
	}
	defer control.Close()
	given, err := n.give(false)
	if err != nil {
		return err
	}
	defer given.close()
	given.Device, given.Lock, given.Control = device, lock, control
	keepNotes, err := n.noteStarted(given)
	if err == nil {
		err = keepNotes()
	}
	if err != nil {
		return err
	}
	n.forgetFailedUpgrade() // this version serves from now on, or none
	err = n.pair().Start(n.firstArgs(), given.Resources, n.Log, func(pid int) error {
		_, problem, err := n.settle(pid)
		n.noteCgroup(problem)
		return err
	})
	return withLastWords(err, given.Crash)
}

// listen makes the control socket. Only its owner, root, can connect to it.
func (n callOut) listen() (*os.File, error) {
	if err := os.Remove(n.path("control")); err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	listener, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: n.path("control"), Net: "unixpacket"})
	if err != nil {
		return nil, err
	}
	defer listener.Close()
	listener.SetUnlinkOnClose(false)
	if err := os.Chmod(n.path("control"), 0o600); err != nil {
		return nil, err
	}
	return listener.File()
}

// retireNodeMount removes a node mount that is left, and keeps its file system to be healed.
func (n callOut) retireNodeMount() error {
	point, err := openMounted(n.fsPath())
	if err != nil || point == nil {
		return err
	}
	defer point.Close()
	return n.retire(point)
}

// mountLabelled mounts the node's file system, with the SELinux label where SELinux is enabled, and
// returns the descriptor that serves it. A volume that some containers may not read is better than
// none: when the label is refused, it mounts without.
func (n callOut) mountLabelled() (device int, err error) {
	point, err := mount.Open(n.fsPath())
	if err != nil {
		return -1, err
	}
	defer point.Close()
	if n.Label != "" && selinux.CurrentMode() != selinux.Absent {
		device, err := n.mountDevice(point, n.Label)
		// The policy does not know the label, or does not let the kubelet use it.
		if !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.EACCES) {
			return device, err
		}
		n.Log("the SELinux label %s is refused, mounting without it; see %s status: %v", n.Label, n.Program, err)
	}
	return n.mountDevice(point, "")
}

// mountDevice mounts a new file system. After a failure, the descriptor is of no
// use: before Linux 5.19, the kernel looks up the label only when the file system has taken
// the descriptor.
func (n callOut) mountDevice(point *mount.Point, label string) (int, error) {
	device, err := devfuse.Open(unix.O_NONBLOCK)
	if err != nil {
		return -1, err
	}
	err = point.FUSE(device, mount.Options{Type: n.fsType(), Source: n.Name.String(), MaxRead: n.options().MaxRead, Label: label})
	if err != nil {
		unix.Close(device)
		return -1, err
	}
	return device, nil
}

// used tells whether the driver has ever mounted anything. Where there are no records,
// they may have been lost.
func (n callOut) used() (bool, error) {
	if exists(n.Volumes().Dir) {
		return true, nil
	}
	count, err := n.Unrecorded()
	return count > 0, err
}

// ensure starts the daemon if it does not serve, and its companion, and makes lost records anew: it
// returns what adopt does. The caller calls heal next, and has no lock. Where the driver has
// nothing, it starts the daemon only if somebody needs it, and returns errStopped otherwise.
func (n callOut) ensure(needed bool) (adopted []Healed, err error) {
	lock := n.lockUsed
	if needed {
		lock = n.lockServed
	}
	unlock, served, err := lock()
	if err != nil {
		return nil, err
	}
	defer unlock()
	if served {
		served, err = n.servesWhole()
	}
	if err != nil {
		return nil, err
	} else if !served {
		return n.start()
	}
	if _, err := n.ensureCompanion(); err != nil {
		return nil, err
	}
	if err := makeDir(n.Volumes().Dir, n.gid(), readable); err != nil { // somebody may have removed it
		return nil, err
	}
	return n.adopt()
}

// lockUsed does what lockServed does, where the driver has mounted something, and otherwise returns
// errStopped.
func (n callOut) lockUsed() (unlock func(), served bool, err error) {
	unlock, served, err = n.lockServed()
	if err != nil {
		return nil, false, err
	}
	used, err := n.used()
	if err == nil && !used {
		if err = n.removeRunDir(); err == nil { // which the lock has made
			err = errStopped
		}
	}
	if err != nil {
		unlock()
		return nil, false, err
	}
	return unlock, served, nil
}

// lockServed takes the exclusive lock, and tells whether the daemon serves. It asks the daemon
// before it has the lock, and again if another call-out has changed the node mount since, or
// started the daemon.
func (n callOut) lockServed() (unlock func(), served bool, err error) {
	for {
		whom, err := n.locks()
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

// served tells whether the node mount is there and answers, and its device number; 0: it is not
// there. It is an error if it is there in another namespace. It asks the mount itself, not the
// locks: the kernel answers at once when the last process that had the connection is gone.
//
// A healthy pair is never taken for dead, however loaded the node is, nor while one process
// takes over from the other: its answer comes late then, and served waits longer than the
// pair needs to replace a process that hangs (package pair, patience). A node that was
// suspended has not waited, see [mount.Point.Below]. A daemon that is silent for so long
// answers no pod either, and no standby is left to replace it.
func (n callOut) served() (device uint64, served bool, err error) {
	// All questions of a call-out to a daemon that was there before share one wait.
	until := n.until().Add(stepTimeout - callOutTimeout)
	if least := time.Now().Add(reportTimeout); until.Before(least) {
		until = least
	}
	for range 2 { // a dead mount is absent once it was asked
		there, err := n.look()
		if err == nil && there.device == 0 {
			err = n.refuseElsewhere(there.locks, until)
		}
		if err != nil || there.device == 0 || !exists(n.path("daemon.lock")) { // without that file, its processes cannot be found
			return there.device, false, err
		}
		limit := stepTimeout
		if there.locks.State() <= pair.Dead {
			limit = deadTimeout
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
func (n callOut) servesWhole() (bool, error) {
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

// errStopped says that Stop was faster.
var errStopped = errors.New("the driver was stopped meanwhile")
