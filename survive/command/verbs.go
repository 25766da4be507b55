package command

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"example.com/pod-info-fuse/internal/cli"
	"example.com/pod-info-fuse/survive"
)

// stop ends the daemon and removes everything that the driver has on the node.
func (p Program) stop(set *pflag.FlagSet) func([]string) error {
	node := p.Node(set)
	force := set.Bool("force", false, "unmount volumes that are mounted; pods that use them read errors from then on")
	return func([]string) error {
		n, err := node()
		if err != nil {
			return err
		}
		return stopNode(n, *force)
	}
}

func stopNode(n survive.Node, force bool) error {
	inUse, err := n.Stop(force)
	if err != nil || len(inUse) == 0 {
		return err
	}
	var list strings.Builder
	for i, v := range inUse {
		if i == mostNamed {
			fmt.Fprintf(&list, "\n  and %d more, which status lists", len(inUse)-i)
			break
		}
		if v.Problem != nil {
			fmt.Fprintf(&list, "\n  %v", v.Problem)
		} else {
			fmt.Fprintf(&list, "\n  %s  %s", Printable(v.Dir, 0), podOf(v))
		}
	}
	return fmt.Errorf("volumes are in use; delete their pods:%s", list.String())
}

// mostNamed is how many volumes an error names.
const mostNamed = 20

// upgrade lets this version take over from the one that serves.
func (p Program) upgrade(set *pflag.FlagSet) func([]string) error {
	node := p.Node(set)
	return func([]string) error {
		n, err := node()
		if err != nil {
			return err
		}
		return p.upgradeNode(n)
	}
}

func (p Program) upgradeNode(n survive.Node) error {
	from, err := n.Upgrade()
	if err != nil {
		return err
	}
	if from == "" {
		fmt.Printf("nothing to do: no daemon serves, or it has version %s already\n", p.Version)
		return nil
	}
	fmt.Printf("version %s serves in the place of %s\n", p.Version, Printable(from, longestWord))
	return nil
}

// restore heals volumes whose daemon has died, and reports them.
func (p Program) restore(set *pflag.FlagSet) func([]string) error {
	find, output := p.finder(set), cli.OutputFlag(set, "text")
	return func([]string) error {
		i, err := find()
		if err != nil {
			return err
		}
		all, err := p.restoreNode(i)
		return reportHealed(output, all, err)
	}
}

// restoreNode heals volumes. The error tells of those that it has not healed.
func (p Program) restoreNode(i survive.CallOuts) ([]survive.Healed, error) {
	all, err := i.Node.Restore() // it may have healed what could be, in spite of an error
	for _, text := range survive.Lines(all) {
		p.log(i).Line("restore: %s", text)
	}
	if err != nil {
		return all, err
	}
	count, failed := 0, 0
	for _, h := range all {
		count += 1 + h.More
		if h.Err != nil {
			failed += 1 + h.More
		}
	}
	if failed > 0 {
		return all, fmt.Errorf("%d of %d mounts are not healed; unmount them, or delete the pods that hold them", failed, count)
	}
	return all, nil
}

// healedReport is the JSON of a mount that was dead.
type healedReport struct {
	Path         string `json:"path"` // as the process sees it
	PID          int    `json:"pid"`  // of a process in the mount namespace; 0: the node's own
	ID           string `json:"id"`   // of the volume
	PodUID       string `json:"podUID"`
	PodName      string `json:"podName"`
	PodNamespace string `json:"podNamespace"`
	Error        string `json:"error,omitempty"` // why it is still dead
	More         int    `json:"more,omitempty"`  // mounts of the namespace that have not been tried, for the same reason
}

// reportHealed prints what restore has done. err is the error of some of it.
func reportHealed(output *cli.Output, all []survive.Healed, err error) error {
	if output.JSON() && (err == nil || len(all) > 0) {
		reports := []healedReport{}
		for _, h := range all {
			r := healedReport{h.Path, h.PID, h.Volume.ID().String(), h.Volume.PodUID, h.Volume.PodName, h.Volume.PodNamespace, "", h.More}
			if h.Err != nil {
				r.Error = h.Err.Error()
			}
			reports = append(reports, r)
		}
		return errors.Join(cli.PrintJSON(reports), err)
	}
	for _, text := range survive.Lines(all) {
		fmt.Println(line(text))
	}
	if err == nil && len(all) == 0 {
		fmt.Println("nothing was dead")
	}
	return err
}
