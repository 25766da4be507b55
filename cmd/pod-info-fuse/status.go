package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"text/tabwriter"
	"time"

	"example.com/pod-info-fuse/daemon"
	"example.com/pod-info-fuse/driver"
	"example.com/pod-info-fuse/node"
)

// report is what status prints as JSON. Names in it are for scripts and stay.
type report struct {
	Driver  string         `json:"driver"`
	Version string         `json:"version"`
	RunDir  string         `json:"runDir"`
	Mount   mountReport    `json:"mount"`
	Daemon  daemonReport   `json:"daemon"`
	SELinux selinuxReport  `json:"selinux"`
	Facts   factsReport    `json:"facts"`
	Volumes []volumeReport `json:"volumes"`
	Config  string         `json:"configError,omitempty"`
}

type mountReport struct {
	State node.MountState `json:"state"`
}

type daemonReport struct {
	Active       *processReport   `json:"active,omitempty"`
	Standby      *processReport   `json:"standby,omitempty"` // once it is ready
	Takeovers    int              `json:"takeovers"`
	Upgrades     int              `json:"upgrades"`
	Last         *daemon.Takeover `json:"lastTakeover,omitempty"`
	Confinement  pairConfinement  `json:"confinement"`
	Cgroup       string           `json:"cgroup,omitempty"`
	CgroupError  string           `json:"cgroupError,omitempty"`
	UpgradeError string           `json:"upgradeError,omitempty"`
	Error        string           `json:"error,omitempty"` // why it does not tell
}

type processReport struct {
	PID     int       `json:"pid"`
	Version string    `json:"version"`
	Started time.Time `json:"started"`
}

type volumeReport struct {
	ID           string           `json:"id"`
	Dir          string           `json:"dir"`
	PodUID       string           `json:"podUID"`
	PodName      string           `json:"podName"`
	PodNamespace string           `json:"podNamespace"`
	State        node.VolumeState `json:"state"`
	Problem      string           `json:"problem,omitempty"`
}

// status shows the driver on this node.
func status(args []string) error {
	set, name := flags("status")
	format := set.StringP("output", "o", "table", "`FORMAT`: table or json")
	if err := parse(set, args); err != nil {
		return err
	}
	if *format != "table" && *format != "json" {
		return usageError(fmt.Errorf("output format %q is neither table nor json", *format))
	}
	d, _, err := setUp(*name)
	if err != nil {
		return err
	}
	now, err := d.Node.Status()
	if err != nil {
		return err
	}
	r := newReport(d, now)
	if *format == "json" {
		encoder := json.NewEncoder(os.Stdout)
		encoder.SetIndent("", "  ")
		return encoder.Encode(r)
	}
	return r.print()
}

func newReport(d driver.Driver, now node.Status) report {
	r := report{
		Driver: d.Node.Driver.String(), Version: version, RunDir: d.Node.RunDir,
		Mount: mountReport{now.Mount}, Volumes: []volumeReport{},
	}
	r.Daemon = newDaemonReport(now)
	r.SELinux = newSELinuxReport(d.Node)
	r.Facts = newFactsReport(d.Node)
	if d.ConfigError != nil {
		r.Config = d.ConfigError.Error()
	}
	for _, v := range now.Volumes {
		entry := volumeReport{
			ID: v.ID.String(), Dir: v.Dir, PodUID: v.PodUID, PodName: v.PodName,
			PodNamespace: v.PodNamespace, State: v.State,
		}
		if v.Problem != nil {
			entry.Problem = v.Problem.Error()
		}
		r.Volumes = append(r.Volumes, entry)
	}
	return r
}

// print writes the table. Directories and names come from the API and the
// file system: what could play tricks on a terminal is quoted.
func (r report) print() error {
	table := tabwriter.NewWriter(os.Stdout, 0, 8, 2, ' ', 0)
	fmt.Fprintf(table, "driver\t%s\nversion\t%s\nrun directory\t%s\nmount\t%s\n", r.Driver, r.Version, r.RunDir, r.Mount.State)
	r.Daemon.print(table)
	r.SELinux.print(table)
	r.Facts.print(table)
	if r.Config != "" {
		fmt.Fprintf(table, "configuration\t%s\n", r.Config)
	}
	fmt.Fprintf(table, "volumes\t%d\n", len(r.Volumes))
	if err := table.Flush(); err != nil || len(r.Volumes) == 0 {
		return err
	}
	fmt.Fprintf(table, "\nSTATE\tPOD\tUID\tDIRECTORY\n")
	for _, v := range r.Volumes {
		where := printable(v.Dir, 0)
		if v.Problem != "" {
			where = v.Problem
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", v.State, printable(v.PodNamespace+"/"+v.PodName, 0), v.PodUID, where)
	}
	return table.Flush()
}

// printable returns text as it is if it is plain, and quoted if it is not.
// limit is the most bytes to show of it, 0 for all.
func printable(text string, limit int) string {
	if limit > 0 && len(text) > limit {
		text = text[:limit] + "..."
	}
	if quoted := strconv.Quote(text); quoted != `"`+text+`"` {
		return quoted
	}
	return text
}
