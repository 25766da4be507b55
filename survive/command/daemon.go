package command

import (
	"fmt"
	"io"
	"strings"
	"time"

	"example.com/pod-info-fuse/survive"
	"example.com/pod-info-fuse/survive/internal/cgroup"
	"example.com/pod-info-fuse/survive/internal/confine"
	"example.com/pod-info-fuse/survive/internal/pair"
)

// daemonReport is the report of status on the processes that serve.
type daemonReport struct {
	Active       *process        `json:"active,omitempty"`
	Standby      *process        `json:"standby,omitempty"` // once it is ready
	Takeovers    int             `json:"takeovers"`
	Upgrades     int             `json:"upgrades"`
	Last         *pair.Takeover  `json:"lastTakeover,omitempty"`
	Confinement  pairConfinement `json:"confinement"`
	Cgroup       string          `json:"cgroup,omitempty"`
	CgroupError  string          `json:"cgroupError,omitempty"`
	Limits       cgroup.Limits   `json:"limits"` // of that cgroup
	UpgradeError string          `json:"upgradeError,omitempty"`
	Error        string          `json:"error,omitempty"` // why it does not report
}

// process is one that serves. What confines it, [confinement] tells.
type process struct {
	PID     int       `json:"pid,omitempty"` // 0: the kernel does not confirm what the daemon says
	Version string    `json:"version"`
	Started time.Time `json:"started"`
}

func newProcess(says *pair.Process, seen *survive.Process) *process {
	if says == nil {
		return nil
	}
	p := &process{Version: says.Version, Started: says.Started}
	if seen != nil {
		p.PID = seen.PID
	}
	return p
}

func newDaemonReport(now survive.Status, user survive.User) (r daemonReport) {
	r.CgroupError = now.CgroupProblem
	if f := now.FailedUpgrade; f != nil {
		r.UpgradeError = f.Reason
	}
	if now.DaemonError != nil {
		r.Error = now.DaemonError.Error()
	}
	if d := now.Daemon; d != nil {
		r.Active, r.Standby = newProcess(&d.Active, now.Active), newProcess(d.Standby, now.Standby)
		r.Confinement = pairConfinement{newConfinement(&d.Active, now.Active, user), newConfinement(d.Standby, now.Standby, user)}
		r.Takeovers, r.Upgrades, r.Last = d.Takeovers, d.Upgrades, d.Last
	} else if now.Locks.Active.Held {
		// The kernel tells of it, also when it does not answer.
		r.Active = newProcess(new(pair.Process), now.Active)
	}
	if now.Active != nil {
		r.Cgroup, r.Limits = now.Active.Cgroup, now.Active.Limits
	}
	return r
}

func (r daemonReport) print(table io.Writer) {
	if r.Active == nil {
		fmt.Fprintf(table, "daemon\tnone\n")
		return
	}
	printProcess(table, "active", r.Active)
	printProcess(table, "standby", r.Standby)
	fmt.Fprintf(table, "confinement\t%s\n", r.Confinement)
	if r.Cgroup != "" {
		fmt.Fprintf(table, "cgroup\t%s\n", Printable(r.Cgroup, 0))
		fmt.Fprintf(table, "limits\t%s\n", limitsText(r.Limits))
	}
	fmt.Fprintf(table, "take-overs\t%d, %d of them by another version\n", r.Takeovers, r.Upgrades)
	if l := r.Last; l != nil {
		fmt.Fprintf(table, "last change\t%s ago (%s, %.1f ms)\n", age(l.At), Printable(string(l.Cause), longestWord), l.Milliseconds)
	}
	for _, problem := range [...]struct{ name, text string }{
		{"cgroup problem", r.CgroupError}, {"upgrade failed", r.UpgradeError}, {"problem", r.Error},
	} {
		if problem.text != "" {
			fmt.Fprintf(table, "%s\t%s\n", problem.name, Printable(problem.text, 0))
		}
	}
}

// longestWord is how many bytes of a word of the daemon's are shown. An attacker who has
// taken the daemon over can say anything.
const longestWord = 80

func printProcess(table io.Writer, role string, p *process) {
	if p == nil {
		fmt.Fprintf(table, "%s\tnone\n", role)
		return
	}
	text := "a process that is not known"
	if p.PID != 0 {
		text = fmt.Sprintf("process %d", p.PID)
	}
	if p.Version != "" { // it did report
		text += fmt.Sprintf(", version %s, for %s", Printable(p.Version, longestWord), age(p.Started))
	}
	fmt.Fprintf(table, "%s\t%s\n", role, text)
}

// age is how long ago something was, in whole seconds.
func age(then time.Time) time.Duration { return time.Since(then).Round(time.Second) }

// limitsText tells of the limits, and of those that the cgroup lacks.
func limitsText(l cgroup.Limits) string {
	threads, memory := "none of threads", "none of memory"
	if l.Threads != 0 {
		threads = fmt.Sprintf("%d threads", l.Threads)
	}
	if l.Memory != 0 {
		memory = fmt.Sprintf("%d MiB", l.Memory>>20)
	}
	return threads + ", " + memory
}

// pairConfinement is the confinement of the pair's processes; nil where there is no process,
// or it is not known.
type pairConfinement struct {
	Active  *confinement `json:"active,omitempty"`
	Standby *confinement `json:"standby,omitempty"`
}

// confinement is a process's confinement, as the kernel and the process itself report it.
type confinement struct {
	confine.Report
	Landlock bool         `json:"landlock"`
	user     survive.User // who it should be
}

func newConfinement(says *pair.Process, seen *survive.Process, user survive.User) *confinement {
	if says == nil || seen == nil {
		return nil
	}
	return &confinement{seen.Confinement, says.Landlock, user}
}

// String says in a word that all is in force, or names the measures that are not.
func (c pairConfinement) String() string {
	switch {
	case c.Active == nil:
		return "unknown"
	case c.Standby == nil:
		return c.Active.String()
	}
	if a, s := c.Active.String(), c.Standby.String(); a != s {
		return "active: " + a + "; standby: " + s
	}
	return c.Active.String()
}

// measure is a part of the confinement.
type measure struct {
	id      string // for scripts
	name    string
	inForce bool
}

func (c confinement) measures() []measure {
	return []measure{
		{"user", "a user of its own", c.UID == c.user.UID && c.GID == c.user.GID && len(c.Groups) == 0},
		{"no_capabilities", "freedom from capabilities", strings.Trim(c.Capabilities, "0") == ""},
		{"no_new_privs", "no_new_privs", c.NoNewPrivs},
		{"not_dumpable", "protection from dumps", !c.Dumpable},
		{"landlock", "Landlock", c.Landlock},
		{"seccomp", "seccomp", c.Seccomp},
	}
}

func (c confinement) String() string {
	var lacks []string
	for _, m := range c.measures() {
		if !m.inForce {
			lacks = append(lacks, m.name)
		}
	}
	if len(lacks) == 0 {
		return "complete"
	}
	return "lacks " + strings.Join(lacks, ", ")
}
