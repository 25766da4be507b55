package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"time"
)

// status is the part of the driver's status that matters here.
type status struct {
	Daemon struct{ Active, Standby *struct{ PID int } }
}

func (d *driver) status() (s status, err error) {
	output, err := exec.Command(d.binary, "status", "-o", "json").Output()
	if err != nil {
		return s, fmt.Errorf("status: %w", err)
	}
	return s, json.Unmarshal(output, &s)
}

// pids are the two processes of the daemon, once both are there.
func (d *driver) pids() ([]int, error) {
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		s, err := d.status()
		if err != nil {
			return nil, err
		}
		if s.Daemon.Active != nil && s.Daemon.Standby != nil && s.Daemon.Active.PID != 0 && s.Daemon.Standby.PID != 0 {
			return []int{s.Daemon.Active.PID, s.Daemon.Standby.PID}, nil
		}
		if time.Now().After(deadline) {
			return nil, errors.New("the daemon has not two processes")
		}
	}
}

// execute runs one of the driver's commands.
func (d *driver) execute(args ...string) error {
	if output, err := exec.Command(d.binary, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", args[0], err, output)
	}
	return nil
}

// uninstall removes the driver with all of its volumes.
func (d *driver) uninstall() error {
	return d.execute("uninstall", "--force", "--plugin-dir", filepath.Join(d.root, "plugins"), "--driver", d.name)
}
