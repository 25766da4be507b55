package main

import (
	"strings"

	"example.com/pod-info-fuse/confine"
	"example.com/pod-info-fuse/daemon"
)

// pairConfinement is what confines the processes of the pair; nil where there is
// no process, or it cannot be found out.
type pairConfinement struct {
	Active  *confinement `json:"active,omitempty"`
	Standby *confinement `json:"standby,omitempty"`
}

// confinement is what the kernel says of a process, and what only the process can
// say.
type confinement struct {
	confine.Report
	Landlock bool `json:"landlock"`
}

func newPairConfinement(r *daemon.Report) pairConfinement {
	return pairConfinement{newConfinement(&r.Active), newConfinement(r.Standby)}
}

func newConfinement(p *daemon.Process) *confinement {
	if p == nil {
		return nil
	}
	report, err := confine.Of(p.PID)
	if err != nil {
		return nil // it has ended
	}
	return &confinement{report, p.Landlock}
}

// String says in a word that all is in force, or what is not.
func (c pairConfinement) String() string {
	switch {
	case c.Active == nil:
		return "unknown"
	case c.Standby == nil:
		return c.Active.String()
	}
	if a, s := c.Active.String(), c.Standby.String(); a != s {
		return "active: " + a + "; standby: " + s
	}
	return c.Active.String()
}

// measure is a part of the confinement.
type measure struct {
	id      string // for scripts
	name    string
	inForce bool
}

func (c confinement) measures() []measure {
	return []measure{
		{"user", "a user of its own", c.UID == confine.UID && c.GID == confine.GID && len(c.Groups) == 0},
		{"no_capabilities", "freedom from capabilities", strings.Trim(c.Capabilities, "0") == ""},
		{"no_new_privs", "no_new_privs", c.NoNewPrivs},
		{"not_dumpable", "protection from dumps", !c.Dumpable},
		{"landlock", "Landlock", c.Landlock},
		{"seccomp", "seccomp", c.Seccomp},
	}
}

func (c confinement) String() string {
	var lacks []string
	for _, m := range c.measures() {
		if !m.inForce {
			lacks = append(lacks, m.name)
		}
	}
	if len(lacks) == 0 {
		return "complete"
	}
	return "lacks " + strings.Join(lacks, ", ")
}
