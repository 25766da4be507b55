package daemon

import "time"

// Process describes a process of the pair.
type Process struct {
	PID     int       `json:"pid"`
	Version string    `json:"version"`
	Started time.Time `json:"started"`
	// Landlock says that Landlock confines it, which only the process itself can
	// tell; see confine.Of for the rest.
	Landlock bool `json:"landlock"`
}

// Cause is why a process took over.
type Cause string

const (
	Started Cause = "start" // by a call-out: there was nobody before
	Crash   Cause = "crash" // the active process died
	Hang    Cause = "hang"  // it gave no sign of life, and was killed
	Planned Cause = "planned"
)

// Takeover is one change of the active process.
type Takeover struct {
	Cause Cause     `json:"cause"`
	At    time.Time `json:"at"`
	// Milliseconds from the moment that the successor knew, until it served.
	Milliseconds float64 `json:"milliseconds"`
}

// History is what a successor learns from the process before it.
type History struct {
	Takeovers    int       `json:"takeovers"`
	Upgrades     int       `json:"upgrades"` // of the takeovers, those by another version
	Last         *Takeover `json:"last,omitempty"`
	UpgradeError string    `json:"upgradeError,omitempty"` // of the last upgrade
	// CgroupError is why the pair is still in the cgroup of the kubelet, "" when
	// it is not.
	CgroupError string `json:"cgroupError,omitempty"`
}
