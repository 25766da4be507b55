package main

import (
	"cmp"

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
	Mode    selinux.Mode `json:"mode"`
	Context string       `json:"context"`         // of the node mount, "" for none
	Error   string       `json:"error,omitempty"` // why that is not known
}

func newSELinuxReport(n survive.Node) selinuxReport {
	r := selinuxReport{Mode: selinux.CurrentMode()}
	if r.Mode == selinux.Absent {
		return r
	}
	var err error
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
	all = append(all, [2]string{"label", command.Printable(cmp.Or(r.Context, "none"), 0)})
	if r.Error != "" {
		all = append(all, [2]string{"SELinux problem", command.Printable(r.Error, 0)})
	}
	return all
}
