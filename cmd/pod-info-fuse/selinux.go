package main

import (
	"errors"
	"fmt"
	"os"
	"text/tabwriter"

	"example.com/pod-info-fuse/node"
	"example.com/pod-info-fuse/selinux"
)

var useFUSE = selinux.Boolean{Root: selinux.Root, Name: selinux.UseFUSE}

// seLinux tells an administrator what SELinux does to the volumes.
func seLinux(args []string) error {
	set, name := flags("selinux")
	enable := set.Bool("enable-boolean", false, "turn "+useFUSE.Name+" on until the next boot")
	if err := parse(set, args); err != nil {
		return err
	}
	d, _, err := setUp(*name)
	if err != nil {
		return err
	}
	if *enable {
		return enableBoolean()
	}
	now, err := d.Node.Status()
	if err != nil {
		return err
	}
	r := newSELinuxReport(d.Node)
	table := tabwriter.NewWriter(os.Stdout, 0, 8, 2, ' ', 0)
	r.print(table)
	if err := table.Flush(); err != nil {
		return err
	}
	situation := selinux.Situation{
		Mode: r.Mode, Mounted: now.Mount != node.MountAbsent, Label: r.Context,
		Wanted: d.Node.Label, Boolean: r.Boolean.State,
	}
	fmt.Printf("\n%s\n", situation.Advice())
	return nil
}

// enableBoolean does what setsebool does without -P: it has an effect at once,
// on all of the node, and none on the policy's files.
func enableBoolean() error {
	if selinux.CurrentMode() == selinux.Absent {
		return errors.New("SELinux is not enabled on this node: it has no booleans, and denies nothing")
	}
	switch state, err := useFUSE.State(); {
	case err != nil:
		return err
	case state == selinux.NoSuch:
		return fmt.Errorf("the policy of this node has no boolean %s; see pod-info-fuse selinux", useFUSE.Name)
	case state == selinux.On:
		fmt.Printf("%s is on already", useFUSE.Name)
	default:
		if err := useFUSE.Enable(); err != nil {
			return err
		}
		fmt.Printf("%s is on", useFUSE.Name)
	}
	fmt.Printf("; to keep it on after the next boot:\n  setsebool -P %s 1\n", useFUSE.Name)
	return nil
}
