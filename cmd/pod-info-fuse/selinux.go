package main

import (
	"cmp"
	"fmt"

	"example.com/pod-info-fuse/selinux"
	"example.com/pod-info-fuse/survive"
	"example.com/pod-info-fuse/survive/command"
)

// seLinuxSection is the section of status on SELinux.
func seLinuxSection(n survive.Node) command.Section {
	r := newSELinuxReport(n)
	return command.Section{Name: "selinux", Value: r, Lines: r.lines()}
}

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

func newSELinuxReport(n survive.Node) selinuxReport {
	r := selinuxReport{Mode: selinux.CurrentMode()}
	r.Boolean = booleanReport{selinux.UseFUSE, selinux.NoSuch}
	if r.Mode == selinux.Absent {
		return r
	}
	var err error
	if r.Boolean.State, err = selinux.BooleanState(selinux.Root); err != nil {
		r.Error = err.Error()
	}
	if r.Context, err = n.Inside().MountedLabel(); err != nil {
		r.Error = err.Error()
	}
	return r
}

func (r selinuxReport) lines() [][2]string {
	all := [][2]string{{"SELinux", string(r.Mode)}}
	if r.Mode == selinux.Absent {
		return all
	}
	all = append(all, [2]string{"label", command.Printable(cmp.Or(r.Context, "none"), 0)}, [2]string{"boolean", fmt.Sprintf("%s is %s", r.Boolean.Name, r.Boolean.State)})
	if r.Error != "" {
		all = append(all, [2]string{"SELinux problem", command.Printable(r.Error, 0)})
	}
	return all
}
