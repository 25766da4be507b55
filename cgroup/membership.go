package cgroup

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// procRoot is where proc(5) is mounted.
const procRoot = "/proc"

// membership is a line of /proc/PID/cgroup: a process's cgroup in one hierarchy.
type membership struct {
	// controllers are those of a v1 hierarchy, or its name as "name=NAME".
	// The unified hierarchy, v2, has none.
	controllers []string
	// path is the cgroup's, below the root of our cgroup name space.
	path string
}

// unified tells whether the hierarchy is that of cgroup v2.
func (m membership) unified() bool { return len(m.controllers) == 0 }

// inRoot tells whether the process is in the hierarchy's root.
func (m membership) inRoot() bool { return m.path == "/" }

// String names the hierarchy.
func (m membership) String() string {
	if m.unified() {
		return "unified"
	}
	return strings.Join(m.controllers, ",")
}

// memberships lists the process's cgroups in all hierarchies that there are,
// mounted or not. proc is where proc(5) is.
func memberships(proc string, pid int) ([]membership, error) {
	path := filepath.Join(proc, strconv.Itoa(pid), "cgroup")
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	list, err := parse(string(data))
	if err != nil {
		return nil, &fs.PathError{Op: "read", Path: path, Err: err}
	}
	return list, nil
}

// parse reads lines "ID:CONTROLLERS:PATH", which cgroups(7) describes. The path
// may have colons in it.
func parse(text string) ([]membership, error) {
	var list []membership
	for line := range strings.Lines(text) {
		fields := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(fields) != 3 || !strings.HasPrefix(fields[2], "/") {
			return nil, fmt.Errorf("line %q is not of the form ID:CONTROLLERS:PATH", line)
		}
		m := membership{path: fields[2]}
		if fields[1] != "" {
			m.controllers = strings.Split(fields[1], ",")
		}
		list = append(list, m)
	}
	return list, nil
}
