package main

import (
	"fmt"
	"io"

	"example.com/pod-info-fuse/node"
	"example.com/pod-info-fuse/selinux"
)

type selinuxReport struct {
	Mode    selinux.Mode  `json:"mode"`
	Context string        `json:"context"` // of the node mount, "" for none
	Boolean booleanReport `json:"boolean"`
	Error   string        `json:"error,omitempty"` // why something is not known
}

type booleanReport struct {
	Name  string        `json:"name"`
	State selinux.State `json:"state"`
}

func newSELinuxReport(n node.Node) selinuxReport {
	r := selinuxReport{Mode: selinux.CurrentMode()}
	r.Boolean = booleanReport{selinux.UseFUSE, selinux.NoSuch}
	if r.Mode == selinux.Absent {
		return r
	}
	var err error
	if r.Boolean.State, err = useFUSE.State(); err != nil {
		r.Error = err.Error()
	}
	if r.Context, err = n.MountedLabel(); err != nil {
		r.Error = err.Error()
	}
	return r
}

func (r selinuxReport) print(table io.Writer) {
	fmt.Fprintf(table, "SELinux\t%s\n", r.Mode)
	if r.Mode == selinux.Absent {
		return
	}
	context := r.Context
	if context == "" {
		context = "none"
	}
	fmt.Fprintf(table, "label\t%s\nboolean\t%s is %s\n", printable(context, 0), r.Boolean.Name, r.Boolean.State)
	if r.Error != "" {
		fmt.Fprintf(table, "SELinux problem\t%s\n", printable(r.Error, 0))
	}
}
