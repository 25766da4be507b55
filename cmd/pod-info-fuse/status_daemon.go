package main

import (
	"fmt"
	"io"
	"time"

	"example.com/pod-info-fuse/cgroup"
	"example.com/pod-info-fuse/daemon"
	"example.com/pod-info-fuse/node"
)

func newDaemonReport(now node.Status) (r daemonReport) {
	if now.DaemonError != nil {
		r.Error = now.DaemonError.Error()
	}
	if d := now.Daemon; d != nil {
		r.Active, r.Standby = newProcessReport(&d.Active), newProcessReport(d.Standby)
		r.Confinement = newPairConfinement(d)
		r.Takeovers, r.Upgrades, r.Last = d.Takeovers, d.Upgrades, d.Last
		r.CgroupError, r.UpgradeError = d.CgroupError, d.UpgradeError
	} else if now.PIDs.Active != 0 {
		// The kernel knows who it is, also when it does not answer.
		r.Active = &processReport{PID: now.PIDs.Active}
	}
	if r.Active != nil {
		var err error
		if r.Cgroup, err = cgroup.Of(r.Active.PID); err != nil && r.Error == "" {
			r.Error = err.Error()
		}
	}
	return r
}

func newProcessReport(p *daemon.Process) *processReport {
	if p == nil {
		return nil
	}
	return &processReport{PID: p.PID, Version: p.Version, Started: p.Started}
}

func (r daemonReport) print(table io.Writer) {
	if r.Active == nil {
		fmt.Fprintf(table, "daemon\tnone\n")
		return
	}
	printProcess(table, "active", r.Active)
	printProcess(table, "standby", r.Standby)
	fmt.Fprintf(table, "confinement\t%s\n", r.Confinement)
	fmt.Fprintf(table, "cgroup\t%s\n", r.Cgroup)
	fmt.Fprintf(table, "take-overs\t%d, %d of them by another version\n", r.Takeovers, r.Upgrades)
	if l := r.Last; l != nil {
		fmt.Fprintf(table, "last change\t%s ago (%s, %.1f ms)\n", age(l.At), l.Cause, l.Milliseconds)
	}
	for name, problem := range map[string]string{"cgroup problem": r.CgroupError, "upgrade failed": r.UpgradeError, "problem": r.Error} {
		if problem != "" {
			fmt.Fprintf(table, "%s\t%s\n", name, printable(problem, 0))
		}
	}
}

func printProcess(table io.Writer, role string, p *processReport) {
	switch {
	case p == nil:
		fmt.Fprintf(table, "%s\tnone\n", role)
	case p.Version == "": // it did not tell
		fmt.Fprintf(table, "%s\tprocess %d\n", role, p.PID)
	default:
		fmt.Fprintf(table, "%s\tprocess %d, version %s, for %s\n", role, p.PID, p.Version, age(p.Started))
	}
}

// age is how long ago something was, in whole seconds.
func age(then time.Time) time.Duration { return time.Since(then).Round(time.Second) }
