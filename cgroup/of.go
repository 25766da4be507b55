package cgroup

import (
	"slices"
	"strings"
)

// Of tells the process's cgroup, for people to read. Of a process that is in
// several hierarchies it is the path in the unified one (cgroup v2), else in
// systemd's of v1, else in the first that has one; a hierarchy that leaves
// the process in its root counts only if all of them do. Linux lists the unified
// hierarchy also where nobody uses it (cgroups(7)).
func Of(pid int) (string, error) { return of(procRoot, pid) }

func of(proc string, pid int) (string, error) {
	list, err := memberships(proc, pid)
	if err != nil {
		return "", err
	}
	slices.SortStableFunc(list, func(a, b membership) int { return rank(a) - rank(b) })
	for _, m := range list {
		if !m.inRoot() {
			return m.path, nil
		}
	}
	return "/", nil
}

// rank orders hierarchies by how much they tell: those that managers of
// services use come first.
func rank(m membership) int {
	switch {
	case m.unified():
		return 0
	case m.String() == "name=systemd":
		return 1
	case strings.HasPrefix(m.String(), "name="):
		return 2
	}
	return 3
}
