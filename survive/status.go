package survive

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"example.com/pod-info-fuse/internal/confine"
	"example.com/pod-info-fuse/internal/mount"
	"example.com/pod-info-fuse/internal/proc"
	"example.com/pod-info-fuse/survive/internal/cgroup"
	"example.com/pod-info-fuse/survive/internal/pair"
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

// Status looks at the node. It waits for the daemon for little more than two seconds, and changes
// nothing.
func (n Node) Status() (Status, error) {
	c := n.begin()
	there, err := c.look()
	if err != nil {
		return Status{}, err
	}
	ids, err := c.Volumes().IDs()
	if err != nil {
		return Status{}, err
	}
	lingering, err := c.lingering()
	if err != nil {
		return Status{}, err
	}
	living, table := there.living(), new(mount.Table) // once, for all volumes
	status, err := c.processes(there)
	if err != nil {
		return Status{}, err
	}
	status.Volumes, status.CgroupProblem, status.FailedUpgrade = []Volume{}, c.note("cgroup-problem"), c.failedUpgrade()
	for _, id := range ids {
		v := Volume{ID: id, State: VolumeUnknown}
		v.Record, v.Problem = c.Volumes().Get(id)
		if errors.Is(v.Problem, fs.ErrNotExist) {
			continue // unmounted just now
		}
		if v.Problem == nil {
			v.State, _ = c.volumeState(v.Dir, living, table)
		}
		if v.State == VolumeNotMounted && slices.Contains(lingering, id) {
			v.State = VolumeLingering
		}
		status.Volumes = append(status.Volumes, v)
	}
	lost, err := c.unrecorded(table)
	if err != nil {
		return Status{}, err
	}
	others, err := c.others()
	if err != nil {
		return Status{}, err
	}
	for _, id := range slices.Sorted(maps.Keys(lost)) {
		status.Volumes = append(status.Volumes, Volume{ID: id, Record: lost[id], State: VolumeUnrecorded})
	}
	status.Volumes = append(status.Volumes, others...)
	return status, nil
}

// processes looks at the processes that serve.
func (n callOut) processes(there look) (Status, error) {
	status := Status{Mount: there.state(), locks: there.locks}
	if !there.locks.Held() {
		return status, nil
	}
	// While processes replace each other, what they say is out of date at once. Those that
	// are honest answer in milliseconds.
	for begun := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		status.says, status.DaemonError = n.pair().Ask(reportTimeout)
		if n.inspect(&status) || time.Since(begun) > 200*time.Millisecond {
			return status, nil
		}
		var err error
		if status.locks, err = n.locks(); err != nil {
			return Status{}, err
		}
	}
}

// inspect looks at the processes that the daemon names, or if it does not answer, at the one that
// has the active lock, and tells whether it knows them. Somebody who has taken the daemon over
// can name any process.
func (n callOut) inspect(status *Status) (known bool) {
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
