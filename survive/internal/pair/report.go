package pair

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
	Started Cause = "start" // by a call-out: there was no process before
	Crash   Cause = "crash" // the active process died
	Hang    Cause = "hang"  // it gave no sign of life, and was killed
	Planned Cause = "planned"
)

// Takeover is one change of the active process.
type Takeover struct {
	Cause Cause     `json:"cause"`
	At    time.Time `json:"at"`
	// Milliseconds from the cause, as the successor saw it, until it served.
	Milliseconds float64 `json:"milliseconds"`
}

// History passes from an active process to its successor.
type History struct {
	Takeovers int       `json:"takeovers"`
	Upgrades  int       `json:"upgrades"` // of the takeovers, those by another version
	Last      *Takeover `json:"last,omitempty"`
}

// Report describes the pair, as its active process knows it.
type Report struct {
	Active  Process  `json:"active"`
	Standby *Process `json:"standby,omitempty"` // nil: none is ready
	History
}
