// Package inside is what packages of this module do with a node of package survive, and no driver's
// author needs: survive.Node has a method Inside.
package inside

import (
	"github.com/moby/sys/mountinfo"

	"example.com/pod-info-fuse/survive/volume"
)

// Node is an installation of a driver on this node.
type Node interface {
	Installation
	Beside
}

// Installation is for who installs the driver, removes it, and shows what it has.
type Installation interface {
	// Died tells whether the daemon is gone. A file system that is being mounted has no daemon
	// yet; so it is an error if a call-out is starting one, or ending it.
	Died() (bool, error)
	// Unrecorded counts the volumes of any kind that are mounted, but have no record. It costs time
	// with the number of mounts on the node.
	Unrecorded() (int, error)
	// Lingers tells whether a volume is unmounted, and has a record for the containers that may
	// have it.
	Lingers(id volume.ID) bool
	// MountedLabel is the SELinux label that the node mount was made with, "" for none. It costs
	// time with the number of mounts on the node.
	MountedLabel() (string, error)

	// RefuseNew has the driver refuse new volumes, or take them again. One that is being removed
	// would otherwise never be without volumes on a node whose pods come and go. Where the driver
	// has no run directory, it has no volumes, and nothing is noted. A reboot forgets it.
	RefuseNew(refuse bool) error
	// RefusesNew tells whether the driver refuses new volumes.
	RefusesNew() bool

	// CheckInput tells why the input cannot be opened for a process that serves, which would start
	// without it.
	CheckInput() error
	// NotedInput is the input and the Config that the pair was given.
	NotedInput() (input, config string)
	// InputStale tells whether the pair was given another input than the one that is there.
	InputStale() bool
	// Due tells whether the next call-out gives the pair another input, or a companion in the place
	// of one that was lost. An attempt that has failed lately is not repeated.
	Due() bool
}

// Beside is for a driver that has a companion, and volumes of another kind.
type Beside interface {
	// Escape moves a process of a companion's, which has no children yet, out of the cgroup of this
	// one, which is the kubelet's, into one of its own. Without that, it lives until systemd
	// restarts the kubelet. It and those that it starts may have so many threads.
	Escape(pid, threads int) error
	// LockVolume keeps other call-outs off a volume. The error is fs.ErrNotExist where the driver
	// has nothing on the node.
	LockVolume(id volume.ID) (unlock func(), err error)
	// CheckNew is the error of a mount that would be of a new volume, while the driver refuses
	// them. A volume that is mounted, or has a record, is not new: its kubelet may repeat the call.
	CheckNew() error
	// MakeReadable makes a directory in the run directory, or takes the one that is there, whatever
	// the umask is: root writes there, the daemon reads, and nobody else sees it.
	MakeReadable(path string) error
	// WithoutRecord makes records of the volumes that mounts in this mount namespace show as a
	// whole, and of which there are none. The root of such a mount is /<id>. The caller knows that
	// the mounts are of the driver.
	WithoutRecord(mounts []*mountinfo.Info, records volume.Store) map[volume.ID]volume.Record
}
