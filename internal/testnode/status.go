package testnode

import (
	"encoding/json"
	"strconv"
	"strings"
	"syscall"
)

// Status is what status -o json prints, as a script sees it.
type Status struct {
	Driver  string
	Version string
	RunDir  string
	Mount   struct{ State string }
	Daemon  struct {
		Active, Standby *struct {
			PID     int
			Version string
		}
		Takeovers, Upgrades              int
		LastTakeover                     struct{ Cause string }
		Confinement                      struct{ Active, Standby *Confinement }
		Cgroup                           string
		Limits                           struct{ Threads, Memory uint64 }
		OOMScoreAdj                      struct{ Active, Standby *int }
		CgroupError, UpgradeError, Error string
	}
	SELinux struct {
		Mode, Context, Error string
	}
	Facts struct {
		Count   int
		LeftOut []struct{ Name, Reason string }
		Stale   bool
		Error   string
	}
	Volumes []struct {
		ID, Dir, PodUID, PodName, PodNamespace, State string
	}
	ConfigError string
}

// Status asks the driver. It waits for the active process for a second, in which a machine may
// stand still: so it is asked again when it says that there was no answer.
func (d Driver) Status() (s Status) {
	d.T.Helper()
	for range 3 {
		output, err := d.Command("status", "-o", "json").Output()
		if err != nil {
			d.T.Fatalf("status: %v", err)
		}
		s = Status{}
		if err := json.Unmarshal(output, &s); err != nil {
			d.T.Fatalf("status: %v: %s", err, output)
		}
		if !strings.HasSuffix(s.Daemon.Error, "does not answer") {
			break
		}
	}
	return s
}

// Confinement is a process's part of .daemon.confinement, as a script sees it.
type Confinement struct {
	UID, GID             uint32
	Groups               []uint32
	Capabilities         string
	NoNewPrivs, Dumpable bool
	Seccomp, Landlock    bool
	ReadableBinary       bool
}

// DaemonGID is the group of every daemon of this program.
const DaemonGID = 4200000001

// User is the user of the daemon, which root has noted.
func (d Driver) User() syscall.Credential {
	d.T.Helper()
	uid, err := strconv.ParseUint(Read(d.T, d.RunDir, "user"), 10, 32)
	if err != nil {
		d.T.Fatal(err)
	}
	return syscall.Credential{Uid: uint32(uid), Gid: DaemonGID}
}
