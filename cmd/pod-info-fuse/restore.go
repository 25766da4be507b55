package main

import (
	"fmt"
)

// restore heals volumes whose daemon has died, and says what it did.
func restore(args []string) error {
	set, name := flags("restore")
	if err := parse(set, args); err != nil {
		return err
	}
	d, log, err := setUp(*name)
	if err != nil {
		return err
	}
	all, err := d.Node.Restore()
	if err != nil {
		return err
	}
	failed := 0
	for _, h := range all {
		fmt.Println(h)
		log.Line("restore: %s", h)
		if h.Err != nil {
			failed++
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d dead mounts are not healed; delete the pods that hold them", failed, len(all))
	}
	if len(all) == 0 {
		fmt.Println("nothing was dead")
	}
	return nil
}
