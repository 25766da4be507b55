package command

import (
	"encoding/json"
	"fmt"
	"os"
	"text/tabwriter"

	"example.com/pod-info-fuse/survive"
)

// Section is a part of status that a driver adds.
type Section struct {
	Name  string      // in JSON, for scripts: it never changes, and nothing else there may have it
	Value any         // its content in JSON
	Lines [][2]string // its lines in the table, each with a name of its own
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
func (p Program) status(args []string) error {
	set, name := p.Flags("status")
	format := set.StringP("output", "o", "table", "`FORMAT`: table or json")
	if err := p.Parse(set, args); err != nil {
		return err
	}
	if *format != "table" && *format != "json" {
		return p.UsageError(fmt.Errorf("output format %q is neither table nor json", *format))
	}
	i, err := p.installation(*name)
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
	if *format == "json" {
		return i.printJSON(now, sections)
	}
	return i.printTable(now, sections)
}

// printJSON prints the status for scripts. Names in it never change.
func (i installation) printJSON(now survive.Status, sections []Section) error {
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
		"daemon": newDaemonReport(now, i.Node.User), "volumes": volumes,
	}
	if i.ConfigError != nil {
		report["configError"] = i.ConfigError.Error()
	}
	for _, s := range sections {
		if _, there := report[s.Name]; there {
			return fmt.Errorf("status tells of %q already; the driver's own section needs another name", s.Name)
		}
		report[s.Name] = s.Value
	}
	encoder := json.NewEncoder(os.Stdout)
	encoder.SetIndent("", "  ")
	return encoder.Encode(report)
}

// printTable prints the status for people. Directories and names come from the API and the
// file system: it quotes everything that could play tricks on a terminal.
func (i installation) printTable(now survive.Status, sections []Section) error {
	table := tabwriter.NewWriter(os.Stdout, 0, 8, 2, ' ', 0)
	fmt.Fprintf(table, "driver\t%s\nversion\t%s\nrun directory\t%s\nmount\t%s\n", i.Node.Name, i.Node.Version, i.Node.RunDir, now.Mount)
	newDaemonReport(now, i.Node.User).print(table)
	for _, s := range sections {
		for _, l := range s.Lines {
			fmt.Fprintf(table, "%s\t%s\n", l[0], line(l[1]))
		}
	}
	if i.ConfigError != nil {
		fmt.Fprintf(table, "configuration\t%s\n", line(i.ConfigError.Error()))
	}
	fmt.Fprintf(table, "volumes\t%d\n", len(now.Volumes))
	if err := table.Flush(); err != nil || len(now.Volumes) == 0 {
		return err
	}
	fmt.Fprintf(table, "\nSTATE\tPOD\tUID\tDIRECTORY\n")
	for _, v := range now.Volumes {
		where := Printable(v.Dir, 0)
		if v.Problem != nil {
			where = line(v.Problem.Error())
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", v.State, Printable(v.PodNamespace+"/"+v.PodName, 0), v.PodUID, where)
	}
	return table.Flush()
}
