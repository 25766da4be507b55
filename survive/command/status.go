package command

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/pflag"

	"example.com/pod-info-fuse/internal/cli"
	"example.com/pod-info-fuse/survive"
)

// Section is a part of status that a driver adds, and of the metrics.
type Section struct {
	Name    string      // in JSON, for scripts: it never changes, and nothing else there may have it
	Value   any         // its content in JSON
	Lines   [][2]string // its lines in the table, each with a name of its own
	Metrics []Metric    // of the page of install --watch, which everybody may see who can reach its port
	Usage   []Usage     // of the driver's own processes, for that page, beside those that serve
}

// Usage is what a process uses.
type Usage struct {
	Role string // that no other process has
	survive.Usage
}

// Metric is a family of samples for Prometheus.
type Metric struct {
	Name    string // after "fuse_driver_", and one that no other has
	Kind    string // gauge or counter; the name of a counter ends with _total
	Help    string // what it is, in a sentence
	Samples []Sample
}

// Sample is one of a family.
type Sample struct {
	Value  float64
	Labels []string // beside driver: names and values in turn, of which there are few: each combination is kept for ever
}

// volumeReport is the JSON of a volume in status.
type volumeReport struct {
	ID           string              `json:"id"`
	Dir          string              `json:"dir"`
	PodUID       string              `json:"podUID"`
	PodName      string              `json:"podName"`
	PodNamespace string              `json:"podNamespace"`
	State        survive.VolumeState `json:"state"`
	Problem      string              `json:"problem,omitempty"`
}

// status shows the driver on this node.
func (p Program) status(set *pflag.FlagSet) func([]string) error {
	driver, output := p.driverFlag(set), cli.OutputFlag(set, "table")
	return func([]string) error {
		i, err := p.installation(*driver)
		if err == nil && isBelowHostRoot(i.Node) {
			i, err = p.enterHostRoot(i.Node)
		}
		if err != nil {
			return err
		}
		now, err := i.Node.Status()
		if err != nil {
			return err
		}
		var sections []Section
		if p.Status != nil {
			sections = p.Status(i.Node)
		}
		if output.JSON() {
			return printJSON(i, now, sections)
		}
		return printTable(i, now, sections)
	}
}

// printJSON prints the status for scripts. Names in it never change.
func printJSON(i survive.CallOuts, now survive.Status, sections []Section) error {
	volumes := []volumeReport{}
	for _, v := range now.Volumes {
		problem := ""
		if v.Problem != nil {
			problem = v.Problem.Error()
		}
		volumes = append(volumes, volumeReport{v.ID.String(), v.Dir, v.PodUID, v.PodName, v.PodNamespace, v.State, problem})
	}
	report := map[string]any{
		"driver": i.Node.Name.String(), "version": i.Node.Version, "runDir": i.Node.RunDir,
		"mount":  map[string]any{"state": now.Mount},
		"daemon": newDaemonReport(now), "volumes": volumes,
	}
	if i.Node.Inside().RefusesNew() {
		report["refusesNewVolumes"] = true
	}
	if i.ConfigError != nil {
		report["configError"] = i.ConfigError.Error()
	}
	for _, s := range sections {
		report[s.Name] = s.Value
	}
	return cli.PrintJSON(report)
}

// printTable prints the status for people. Directories and names come from the API and the
// file system: it quotes everything that could play tricks on a terminal.
func printTable(i survive.CallOuts, now survive.Status, sections []Section) error {
	lines := [][2]string{{"driver", i.Node.Name.String()}, {"version", i.Node.Version}, {"run directory", i.Node.RunDir}, {"mount", string(now.Mount)}}
	lines = append(lines, newDaemonReport(now).lines(i.Node.User())...)
	for _, s := range sections {
		lines = append(lines, s.Lines...)
	}
	if i.Node.Inside().RefusesNew() {
		lines = append(lines, [2]string{"new volumes", "refused, as the driver is being removed"})
	}
	if i.ConfigError != nil {
		lines = append(lines, [2]string{"configuration", i.ConfigError.Error()})
	}
	err := printLines(append(lines, [2]string{"volumes", fmt.Sprint(len(now.Volumes))}))
	if err != nil || len(now.Volumes) == 0 {
		return err
	}
	table := tabwriter.NewWriter(os.Stdout, 0, 8, 2, ' ', 0)
	fmt.Fprintf(table, "\nSTATE\tPOD\tUID\tDIRECTORY\n")
	for _, v := range now.Volumes {
		where := Printable(v.Dir, 0)
		if v.Problem != nil {
			where = line(v.Problem.Error())
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", v.State, podOf(v), v.PodUID, where)
	}
	return table.Flush()
}

// printLines prints lines of a name and a text, below each other.
func printLines(lines [][2]string) error {
	table := tabwriter.NewWriter(os.Stdout, 0, 8, 2, ' ', 0)
	for _, l := range lines {
		fmt.Fprintf(table, "%s\t%s\n", l[0], line(l[1]))
	}
	return table.Flush()
}

// podOf is a volume's pod, for people.
func podOf(v survive.Volume) string { return cmp.Or(Printable(v.Pod(), 0), "-") }

// daemonReport is the report of status on the processes that serve.
type daemonReport struct {
	Active       *survive.Process           `json:"active,omitempty"`
	Standby      *survive.Process           `json:"standby,omitempty"` // once it is ready
	Takeovers    int                        `json:"takeovers"`
	Upgrades     int                        `json:"upgrades"`
	Last         *survive.Takeover          `json:"lastTakeover,omitempty"`
	Confinement  each[*survive.Confinement] `json:"confinement"` // nil where it is not known
	Cgroup       string                     `json:"cgroup,omitempty"`
	CgroupError  string                     `json:"cgroupError,omitempty"`
	Limits       survive.Limits             `json:"limits"`      // of that cgroup
	OOMScoreAdj  each[json.Number]          `json:"oomScoreAdj"` // "" where it is not known
	UpgradeError string                     `json:"upgradeError,omitempty"`
	Error        string                     `json:"error,omitempty"` // why it does not report, or what is not known
}

// each is what is known of each of the two processes.
type each[T any] struct {
	Active  T `json:"active,omitempty"`
	Standby T `json:"standby,omitempty"`
}

// bothText tells of both processes, once where there is nothing else to tell of the standby.
func bothText(active, standby string) string {
	if standby == "" || standby == active {
		return active
	}
	return "active: " + active + "; standby: " + standby
}

func newDaemonReport(now survive.Status) daemonReport {
	r := daemonReport{Active: now.Active, Standby: now.Standby, CgroupError: now.CgroupProblem}
	if t := now.Takeovers; t != nil {
		r.Takeovers, r.Upgrades, r.Last = t.All, t.Upgrades, t.Last
	}
	if p := now.Active; p != nil {
		r.Cgroup, r.Limits, r.Confinement.Active = p.Cgroup, p.Limits, p.Confinement
		r.OOMScoreAdj.Active = json.Number(p.OOMScoreAdj)
	}
	if p := now.Standby; p != nil {
		r.Confinement.Standby = p.Confinement
		r.OOMScoreAdj.Standby = json.Number(p.OOMScoreAdj)
	}
	if f := now.FailedUpgrade; f != nil {
		r.UpgradeError = f.Reason
	}
	if now.DaemonError != nil {
		r.Error = now.DaemonError.Error()
	}
	return r
}

func (r daemonReport) lines(user survive.User) (all [][2]string) {
	if r.Active == nil {
		return [][2]string{{"daemon", "none"}}
	}
	add := func(name, format string, args ...any) {
		all = append(all, [2]string{name, fmt.Sprintf(format, args...)})
	}
	add("active", "%s", processText(r.Active))
	add("standby", "%s", processText(r.Standby))
	confined := confinementText(r.Confinement.Active, user)
	if standby := r.Confinement.Standby; standby != nil {
		confined = bothText(confined, confinementText(standby, user))
	}
	add("confinement", "%s", confined)
	if r.Cgroup != "" {
		add("cgroup", "%s", Printable(r.Cgroup, 0))
		add("limits", "%s", limitsText(r.Limits))
	}
	if score := string(r.OOMScoreAdj.Active); score != "" {
		add("oom_score_adj", "%s", bothText(score, string(r.OOMScoreAdj.Standby)))
	}
	add("take-overs", "%d, %d of them by another version", r.Takeovers, r.Upgrades)
	if l := r.Last; l != nil {
		add("last change", "%s ago (%s, %.1f ms)", age(l.At), Printable(l.Cause, longestWord), l.Milliseconds)
	}
	for _, problem := range [][2]string{{"cgroup problem", r.CgroupError}, {"upgrade failed", r.UpgradeError}, {"problem", r.Error}} {
		if problem[1] != "" {
			add(problem[0], "%s", Printable(problem[1], 0))
		}
	}
	return all
}

// longestWord is how many bytes of a word of the daemon's are shown. An attacker who has
// taken the daemon over can say anything.
const longestWord = 80

func processText(p *survive.Process) string {
	if p == nil {
		return "none"
	}
	text := "a process that is not known"
	if p.PID != 0 {
		text = fmt.Sprintf("process %d", p.PID)
	}
	if p.Version != "" {
		text += fmt.Sprintf(", version %s, for %s", Printable(p.Version, longestWord), age(p.Started))
	}
	return text
}

// age is how long ago something was, in whole seconds.
func age(then time.Time) time.Duration { return time.Since(then).Round(time.Second) }

// limitsText tells of the limits, and of those that the cgroup lacks.
func limitsText(l survive.Limits) string {
	threads, memory := "none of threads", "none of memory"
	if l.Threads != 0 {
		threads = fmt.Sprintf("%d threads", l.Threads)
	}
	if l.Memory != 0 {
		memory = fmt.Sprintf("%d MiB", l.Memory>>20)
	}
	return threads + ", " + memory
}

// confinementText says in a word that all is in force, or names the measures that are not.
func confinementText(c *survive.Confinement, user survive.User) string {
	if c == nil {
		return "unknown"
	}
	var lacks []string
	for _, m := range measures(c, user) {
		if !m.inForce {
			lacks = append(lacks, m.name)
		}
	}
	if len(lacks) == 0 {
		return "complete"
	}
	return "lacks " + strings.Join(lacks, ", ")
}

// measure is a part of the confinement.
type measure struct {
	id      string // for scripts
	name    string
	inForce bool
}

// measures are those that confine a process which is to be of a user.
func measures(c *survive.Confinement, user survive.User) []measure {
	return []measure{
		{"user", "a user of its own", c.UID == user.UID && c.GID == user.GID && len(c.Groups) == 0},
		{"no_capabilities", "freedom from capabilities", strings.Trim(c.Capabilities, "0") == ""},
		{"no_new_privs", "no_new_privs", c.NoNewPrivs},
		{"not_dumpable", "protection from dumps", !c.Dumpable},
		{"unreadable_binary", "a binary that nobody can read (chmod 0711)", !c.ReadableBinary},
		{"landlock", "Landlock", c.Landlock},
		{"seccomp", "seccomp", c.Seccomp},
	}
}
