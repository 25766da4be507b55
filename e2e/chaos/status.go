package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// status is the part of the driver's status that matters here.
type status struct {
	Version string
	RunDir  string
	Mount   struct{ State string }
	Daemon  struct {
		Active, Standby *daemon
		Takeovers       int
		LastTakeover    *takeover
	}
}

// daemon is a process of the daemon. Another one may have its PID later, and soon where programs
// choose theirs (sizes.go).
type daemon struct {
	PID     int
	Started time.Time
	Version string
}

type takeover struct {
	Cause        string
	Milliseconds float64
}

type role string

const (
	active  role = "active"
	standby role = "standby"
)

// process is the one that has a role, or nobody.
func (s status) process(r role) daemon {
	process := s.Daemon.Active
	if r == standby {
		process = s.Daemon.Standby
	}
	if process == nil {
		return nobody
	}
	return *process
}

// pid returns the PID of the process that has a role; 0: there is none.
func (s status) pid(r role) int { return s.process(r).PID }

// descriptors are what the processes have open.
func (s status) descriptors() (map[role]descriptors, error) {
	found := map[role]descriptors{}
	for _, r := range []role{active, standby} {
		open, err := descriptorsOf(s.pid(r))
		if err != nil {
			return nil, fmt.Errorf("list what the %s has open: %w", r, err)
		}
		found[r] = open
	}
	return found, nil
}

// complete returns an error if the volume is not served, or would not survive the end of the
// process that serves it.
func (s status) complete() error {
	switch {
	case s.Mount.State != "ok":
		return fmt.Errorf("the mount is %q", s.Mount.State)
	case s.pid(active) == nobody.PID:
		return errors.New("there is no active that is known")
	case s.pid(standby) == nobody.PID:
		return errors.New("there is no standby that is known")
	}
	return nil
}

func (d *driver) status() (status, error) {
	var s status
	output, err := d.execute("status", "-o", "json")
	if err != nil {
		return s, err
	}
	if err := json.Unmarshal(output, &s); err != nil {
		return s, fmt.Errorf("the status, %q: %w", output, err)
	}
	return s, nil
}

// recoveryTimeout is how long it may take until there are two processes again, on any machine.
var recoveryTimeout = time.Minute

// nobody is no process.
var nobody daemon

// awaitBoth waits until there are an active and a standby, and neither is the
// process that ended.
func (d *driver) awaitBoth(ctx context.Context, ended daemon) (status, error) {
	var s status
	err := await(ctx, recoveryTimeout, func() (err error) {
		if s, err = d.status(); err != nil {
			return err
		}
		if err := s.complete(); err != nil {
			return err
		}
		for _, r := range []role{active, standby} {
			if p := s.process(r); p.PID == ended.PID && p.Started.Equal(ended.Started) {
				return fmt.Errorf("the %s is still process %d", r, ended.PID)
			}
		}
		return nil
	})
	return s, err
}
