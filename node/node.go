package node

import (
	"errors"
	"os"
	"path/filepath"
	"time"

	"example.com/pod-info-fuse/calllog"
	"example.com/pod-info-fuse/flex"
	"example.com/pod-info-fuse/mount"
	"example.com/pod-info-fuse/volume"
)

// runRoot holds a directory per driver. It is in memory: after a reboot there
// are no mounts, and no records of them.
const runRoot = "/run/pod-info-fuse"

// patience is how long anything that should take milliseconds may take before
// a call-out gives up. The kubelet itself waits for ever.
const patience = 10 * time.Second

// Node is one driver on this node.
type Node struct {
	Driver  flex.Name
	Version string // of this binary
	RunDir  string
	Label   string // SELinux label to mount with; "" none
	// FactsDir has the operator's facts; "" there are none.
	FactsDir string
	log      calllog.Log
}

// New returns the driver's presence on this node. It touches nothing.
func New(driver flex.Name, version string, log calllog.Log) Node {
	return Node{Driver: driver, Version: version, RunDir: filepath.Join(runRoot, driver.Dir()), log: log}
}

// Log writes a line that concerns the node, and not a call-out.
func (n Node) Log(format string, args ...any) { n.log.Line("daemon: "+format, args...) }

// Volumes are the records of the driver's volumes.
func (n Node) Volumes() volume.Store { return volume.Store{Dir: n.path("volumes")} }

// VolumePath is the volume's directory below the node mount.
func (n Node) VolumePath(id volume.ID) string { return filepath.Join(n.fsPath(), id.String()) }

// CallsFile is where call-outs are counted; see package metrics.
func (n Node) CallsFile() string { return n.path("callouts") }

func (n Node) fsPath() string { return n.path("fs") }

func (n Node) socket() string { return n.path("control") }

func (n Node) path(name string) string { return filepath.Join(n.RunDir, name) }

// Use makes sure that the node mount is there and served, and keeps Stop away
// until release is called.
func (n Node) Use() (release func(), err error) {
	if os.Geteuid() != 0 {
		return nil, errors.New("mounting needs root")
	}
	release, err = n.lock(shared)
	if err != nil {
		return nil, err
	}
	serving, err := n.serving()
	if err == nil && serving && n.factsTried() {
		return release, nil
	}
	release()
	if err != nil {
		return nil, err
	}
	if release, err = n.lock(exclusive); err != nil {
		return nil, err
	}
	if err := n.ensure(); err != nil {
		release()
		return nil, err
	}
	if !n.factsTried() {
		if _, err := n.upgrade(); err != nil {
			n.Log("%v", err) // volumes work without the facts
		}
	}
	return release, nil
}

// ensure starts the daemon if it is not there, and heals what one before left
// behind. The caller holds the exclusive lock.
func (n Node) ensure() error {
	if serving, err := n.serving(); err != nil {
		return err
	} else if !serving {
		if err := n.start(); err != nil {
			return err
		}
	}
	if n.unhealed() {
		n.logHealed(n.heal())
	}
	return nil
}

// serving tells whether the node mount is there and somebody answers for it, or
// is about to.
func (n Node) serving() (bool, error) {
	state, _, err := n.mountState()
	if err != nil || state != MountOK {
		return false, err
	}
	// A standby that does not take over within moments has stopped or hangs.
	for deadline := time.Now().Add(time.Second); ; time.Sleep(2 * time.Millisecond) {
		pids, err := n.daemon()
		if err != nil || pids.Active != 0 || !pids.Alive() || time.Now().After(deadline) {
			return pids.Active != 0, err
		}
	}
}

// MountState is the condition of the node mount.
type MountState string

const (
	MountOK     MountState = "ok"     // mounted and served
	MountDead   MountState = "dead"   // mounted, but the daemon is gone
	MountAbsent MountState = "absent" // not mounted
)

// MountState returns the condition of the node mount.
func (n Node) MountState() (MountState, error) {
	state, _, err := n.mountState()
	return state, err
}

// mountState returns the condition and the device number of the node mount.
func (n Node) mountState() (MountState, uint64, error) {
	point, err := mount.Open(n.fsPath())
	if os.IsNotExist(err) {
		return MountAbsent, 0, nil
	} else if err != nil {
		return "", 0, err
	}
	defer point.Close()
	mounted, err := point.Mounted()
	if err != nil || !mounted {
		return MountAbsent, 0, err
	}
	pids, err := n.daemon()
	if err != nil {
		return "", 0, err
	}
	if !pids.Alive() {
		return MountDead, point.Device(), nil
	}
	return MountOK, point.Device(), nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
