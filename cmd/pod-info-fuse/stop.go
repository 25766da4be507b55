package main

import (
	"fmt"
	"strings"
)

// stop ends the daemon and removes what the driver has on the node.
func stop(args []string) error {
	set, name := flags("stop")
	force := set.Bool("force", false, "unmount volumes that are mounted; pods that use them read errors from then on")
	if err := parse(set, args); err != nil {
		return err
	}
	d, _, err := setUp(*name)
	if err != nil {
		return err
	}
	inUse, err := d.Stop(*force)
	if err != nil {
		return err
	}
	if len(inUse) == 0 {
		return nil
	}
	var list strings.Builder
	for _, v := range inUse {
		if v.Problem != nil {
			fmt.Fprintf(&list, "\n  %v", v.Problem)
		} else {
			fmt.Fprintf(&list, "\n  %s  %s", printable(v.Dir, 0), printable(v.PodNamespace+"/"+v.PodName, 0))
		}
	}
	return fmt.Errorf("volumes are in use; delete their pods, or use --force:%s", list.String())
}
