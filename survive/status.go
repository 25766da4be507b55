package survive

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/flex"
	"example.com/pod-info-fuse/internal/confine"
	"example.com/pod-info-fuse/internal/mount"
	"example.com/pod-info-fuse/internal/proc"
	"example.com/pod-info-fuse/survive/internal/cgroup"
	"example.com/pod-info-fuse/survive/internal/pair"
	"example.com/pod-info-fuse/survive/volume"
)

// Status is the condition of the driver on this node.
type Status struct {
	Mount     MountState
	Volumes   []Volume
	Active    *Process   // nil: none
	Standby   *Process   // nil: none is ready, or the daemon does not say
	Takeovers *Takeovers // nil: there is no daemon, or DaemonError
	// DaemonError says why the daemon did not report, or which of its processes is not known.
	DaemonError error
	// CgroupProblem says why the daemon is still in the cgroup of the kubelet, "" when it is
	// not.
	CgroupProblem string
	FailedUpgrade *FailedUpgrade // nil: the last one succeeded

	locks pair.Locks
	says  *pair.Report // its PIDs included; nil: there is no daemon, or DaemonError
}

// Takeovers are the changes of the active process, since the daemon was started, as it says.
type Takeovers struct {
	All      int
	Upgrades int       // of all, those by another version
	Last     *Takeover // nil: there was none
}

// Takeover is one change of the active process.
type Takeover struct {
	Cause string    `json:"cause"` // "start", "crash", "hang" or "planned"
	At    time.Time `json:"at"`
	// Milliseconds from the cause, as the successor saw it, until it served.
	Milliseconds float64 `json:"milliseconds"`
}

func takeoversOf(h pair.History) *Takeovers {
	t := &Takeovers{All: h.Takeovers, Upgrades: h.Upgrades}
	if h.Last != nil {
		t.Last = &Takeover{string(h.Last.Cause), h.Last.At, h.Last.Milliseconds}
	}
	return t
}

// Process is a process of the daemon, as status shows it.
type Process struct {
	// PID is 0 if the kernel does not confirm that the process is the daemon's. Nothing but its
	// word is known then.
	PID     int       `json:"pid,omitempty"`
	Version string    `json:"version"` // as it says, like Started; "": it does not answer
	Started time.Time `json:"started"`

	Confinement *Confinement `json:"-"` // nil: not known
	Cgroup      string       `json:"-"` // for people to read
	Limits      Limits       `json:"-"` // of that
	OOMScoreAdj string       `json:"-"` // a number, see proc_pid_oom_score_adj(5)
	Usage       *Usage       `json:"-"` // nil: not known
}

// Usage is what a process uses, as the kernel tells.
type Usage struct {
	ResidentMemory uint64 // bytes
	CPUTime        time.Duration
	OpenFiles      uint64 // descriptors; 0: the kernel does not tell, before Linux 6.2
}

// Confinement is a process's confinement, as the kernel tells, and for Landlock, as the process
// says.
type Confinement struct {
	UID          uint32   `json:"uid"` // effective
	GID          uint32   `json:"gid"`
	Groups       []uint32 `json:"groups"`       // supplementary
	Capabilities string   `json:"capabilities"` // effective, as a hexadecimal number
	NoNewPrivs   bool     `json:"noNewPrivs"`
	Dumpable     bool     `json:"dumpable"`
	// ReadableBinary: everybody can read the binary, and so a process of the user can trace
	// another one that has just been started. False where that is not known.
	ReadableBinary bool `json:"readableBinary"`
	Seccomp        bool `json:"seccomp"` // a filter is in force
	Landlock       bool `json:"landlock"`
}

// Limits are those of a cgroup.
type Limits struct {
	Threads uint64 `json:"threads,omitempty"` // 0: none
	Memory  uint64 `json:"memory,omitempty"`  // bytes; 0: none
}

// Volume is a recorded volume and its condition.
type Volume struct {
	volume.Record
	State VolumeState
	// Problem says why the record could not be read; all but its ID is unknown then.
	Problem error
	ID      volume.ID
}

// VolumeState is the condition of a volume on its mount directory.
type VolumeState string

const (
	VolumeOK         VolumeState = "ok"         // mounted and served
	VolumeDead       VolumeState = "dead"       // mounted, but by a daemon that is gone
	VolumeNotMounted VolumeState = "notMounted" // recorded only
	VolumeForeign    VolumeState = "foreign"    // somebody else's mount is in its place
	VolumeUnknown    VolumeState = "unknown"    // the record or the mount cannot be read
	VolumeUnrecorded VolumeState = "unrecorded" // mounted, but its record is lost
	VolumeLingering  VolumeState = "lingering"  // unmounted, and its pod is there: a container may have it
)

// Status looks at the node. It waits for the daemon for little more than two seconds, and changes
// nothing but that syslog hears the daemon again; see report.
func (n Node) Status() (Status, error) {
	there, err := n.look()
	if err != nil {
		return Status{}, err
	}
	ids, err := n.Volumes().IDs()
	if err != nil {
		return Status{}, err
	}
	lingering, err := n.lingering()
	if err != nil {
		return Status{}, err
	}
	living, table := there.living(), new(mount.Table) // once, for all volumes
	status, err := n.processes(there)
	if err != nil {
		return Status{}, err
	}
	status.Volumes, status.CgroupProblem, status.FailedUpgrade = []Volume{}, n.cgroupProblem(), n.failedUpgrade()
	for _, id := range ids {
		v := Volume{ID: id, State: VolumeUnknown}
		v.Record, v.Problem = n.Volumes().Get(id)
		if errors.Is(v.Problem, fs.ErrNotExist) {
			continue // unmounted just now
		}
		if v.Problem == nil {
			v.State, _ = n.volumeState(v.Dir, living, table)
		}
		if v.State == VolumeNotMounted && slices.Contains(lingering, id) {
			v.State = VolumeLingering
		}
		status.Volumes = append(status.Volumes, v)
	}
	lost, err := n.unrecorded(table)
	if err != nil {
		return Status{}, err
	}
	others, err := n.others()
	if err != nil {
		return Status{}, err
	}
	status.Volumes = append(append(status.Volumes, lost...), others...)
	return status, nil
}

// Processes is what [Node.Status] says of the mount and of the processes that serve, and nothing
// else of it. The time that it takes does not depend on how many volumes there are.
func (n Node) Processes() (Status, error) {
	there, err := n.look()
	if err != nil {
		return Status{}, err
	}
	return n.processes(there)
}

func (n Node) processes(there look) (Status, error) {
	status := Status{Mount: there.state(), locks: there.locks}
	if !there.locks.Held() {
		return status, nil
	}
	// While processes replace each other, what they say is out of date at once. Those that
	// are honest answer in milliseconds.
	for begun := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		status.says, status.DaemonError = n.report(glance)
		if n.inspect(&status) || time.Since(begun) > 200*time.Millisecond {
			return status, nil
		}
		var err error
		if status.locks, err = n.daemon(); err != nil {
			return Status{}, err
		}
	}
}

// NameOf is the name of the installation that has mounted the directory, or the file system that
// it is in; false: none of this driver has. Nobody is asked but the kernel.
func (d Driver) NameOf(dir string) (name flex.Name, ok bool) {
	point, err := mount.Open(dir)
	if err != nil {
		return name, false
	}
	defer point.Close()
	info, err := point.Info()
	if err != nil || info == nil || info.FSType != d.fsType() {
		return name, false
	}
	name, err = flex.ParseName(info.Source)
	return name, err == nil
}

// inspect looks at the processes that the daemon names, or if it does not answer, at the one that
// has the active lock, and tells whether it knows them. Somebody who has taken the daemon over
// can name any process.
func (n Node) inspect(status *Status) (known bool) {
	known, status.Active, status.Standby, status.Takeovers = true, nil, nil, nil
	look := func(says *pair.Process) *Process {
		if says == nil {
			return nil
		}
		var unknown error
		p := &Process{Version: says.Version, Started: says.Started}
		seen := *p
		err := n.pair().Inspect(says.PID, func() error {
			report, err := confine.Of(says.PID)
			report.Landlock = says.Landlock
			seen.PID, seen.Confinement = says.PID, (*Confinement)(&report)
			seen.Cgroup, unknown = cgroup.Of(says.PID)
			seen.Limits = Limits(cgroup.LimitsOf(says.PID))
			score, scoreErr := os.ReadFile(fmt.Sprintf("/proc/%d/oom_score_adj", says.PID))
			seen.OOMScoreAdj = strings.TrimSpace(string(score))
			if usage, err := proc.UsageOf(says.PID); err == nil {
				seen.Usage = (*Usage)(&usage)
			}
			err = errors.Join(err, scoreErr)
			return err
		})
		if err == nil {
			p = &seen
		} else {
			unknown = fmt.Errorf("the daemon names a process that is not known to be its own: %w", err)
			known = false
		}
		if status.DaemonError == nil {
			status.DaemonError = unknown
		}
		return p
	}
	if d := status.says; d != nil {
		status.Active, status.Standby, status.Takeovers = look(&d.Active), look(d.Standby), takeoversOf(d.History)
	} else if holder := status.locks.Active; holder.Held {
		status.Active = look(&pair.Process{PID: holder.PID})
		status.Active.Confinement = nil // it did not say whether Landlock is in force
	}
	return known
}

func (n Node) volumeState(dir string, living uint64, table *mount.Table) (VolumeState, error) {
	point, err := openDir(dir)
	if err != nil {
		return VolumeUnknown, err
	} else if point == nil {
		return VolumeNotMounted, nil
	}
	defer point.Close()
	return n.mountedOn(point, living, table)
}

// openDir opens the directory of a volume; nil: no volume of ours can be there.
func openDir(dir string) (*mount.Point, error) {
	point, err := volume.OpenDir(dir)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, mount.ErrLink) {
		return nil, nil
	}
	return point, err
}

// mountedOn tells what is mounted on a directory. The file system with the number living is
// served.
func (n Node) mountedOn(point *mount.Point, living uint64, table *mount.Table) (VolumeState, error) {
	switch mounted, err := point.Mounted(); {
	case err != nil:
		return VolumeUnknown, err
	case !mounted:
		return VolumeNotMounted, nil
	case point.Device() == living && !point.Bad():
		return VolumeOK, nil
	}
	// Of no use. mountinfo tells whether it is ours.
	info, err := table.Info(point)
	switch {
	case err != nil:
		return VolumeUnknown, err
	case info == nil: // unmounted just now
		return VolumeNotMounted, nil
	case info.FSType == n.fsType() && info.Source == n.Name.String():
		return VolumeDead, nil
	}
	return VolumeForeign, nil
}

// lookOn tells the same, with the node mount as it is now. It looks at that only if something
// is mounted, which is rare for a volume that is to be mounted.
func (n Node) lookOn(point *mount.Point) (VolumeState, error) {
	if mounted, err := point.Mounted(); err != nil || !mounted {
		return VolumeNotMounted, err
	}
	there, err := n.look()
	if err != nil {
		return VolumeUnknown, err
	}
	return n.mountedOn(point, there.living(), new(mount.Table))
}
