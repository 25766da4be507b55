package main

import "fmt"

// upgrade lets this version take over from the one that serves.
func upgrade(args []string) error {
	set, name := flags("upgrade")
	if err := parse(set, args); err != nil {
		return err
	}
	d, _, err := setUp(*name)
	if err != nil {
		return err
	}
	from, err := d.Node.Upgrade()
	if err != nil {
		return err
	}
	if from == "" {
		fmt.Printf("nothing to do: no daemon serves, or it has version %s already\n", version)
		return nil
	}
	fmt.Printf("version %s serves in the place of %s\n", version, from)
	return nil
}
