package harness

import (
	"encoding/json"
	"fmt"
)

// Status is what the tests need of `status -o json`.
type Status struct {
	Mount  struct{ State string }
	Daemon struct {
		Active       DaemonProcess
		Standby      DaemonProcess // once it could take over
		Takeovers    int
		LastTakeover struct{ Cause string }
		Cgroup       string
	}
	Volumes  []Volume
	Programs []Program // of pod-fuse
}

// A DaemonProcess is one process of the daemon's pair, zero where there is none.
type DaemonProcess struct {
	PID     int
	Version string
}

type Volume struct {
	ID, Dir, PodUID, PodName, PodNamespace, State string
}

// A Program is what is served for a client volume of pod-fuse.
type Program struct {
	Pod     string // namespace/name
	State   string
	Waiting int // requests
}

// Status asks the driver. Its exit status tells of its health; here only what it
// says counts.
func (d *Driver) Status() (Status, error) {
	var status Status
	out, err := d.Run("status", "-o", "json")
	if len(out) == 0 {
		return status, err
	}
	if err := json.Unmarshal(out, &status); err != nil {
		return status, fmt.Errorf("status of the driver %s: %w: %s", d.Name, err, out)
	}
	return status, nil
}
