package command

import (
	"fmt"
	"strings"

	"example.com/pod-info-fuse/survive"
)

// stop ends the daemon and removes everything that the driver has on the node.
func (p Program) stop(args []string) error {
	set := p.Flags("stop")
	force := set.Bool("force", false, "unmount volumes that are mounted; pods that use them read errors from then on")
	n, err := p.Node(set, args)
	if err != nil {
		return err
	}
	inUse, err := n.Stop(*force)
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
func (p Program) upgrade(args []string) error {
	n, err := p.Node(p.Flags("upgrade"), args)
	if err != nil {
		return err
	}
	return p.upgradeNode(n)
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
func (p Program) restore(args []string) error {
	i, err := p.find(p.Flags("restore"), args)
	if err != nil {
		return err
	}
	some, err := p.restoreNode(i)
	if err == nil && !some {
		fmt.Println("nothing was dead")
	}
	return err
}

// restoreNode heals volumes, reports them, and tells whether there were any.
func (p Program) restoreNode(i survive.CallOuts) (some bool, err error) {
	all, err := i.Node.Restore()
	if err != nil {
		return false, err
	}
	for _, text := range survive.Lines(all) {
		fmt.Println(line(text))
		p.log(i).Line("restore: %s", text)
	}
	count, failed := 0, 0
	for _, h := range all {
		count += 1 + h.More
		if h.Err != nil {
			failed += 1 + h.More
		}
	}
	if failed > 0 {
		return true, fmt.Errorf("%d of %d mounts are not healed; unmount them, or delete the pods that hold them", failed, count)
	}
	return len(all) > 0, nil
}
