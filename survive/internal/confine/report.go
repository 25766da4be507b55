package confine

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/internal/proc"
)

// Report is the confinement of a process, as the kernel tells.
type Report struct {
	UID          uint32   `json:"uid"` // effective
	GID          uint32   `json:"gid"`
	Groups       []uint32 `json:"groups"`       // supplementary
	Capabilities string   `json:"capabilities"` // effective, as a hexadecimal number
	NoNewPrivs   bool     `json:"noNewPrivs"`
	Dumpable     bool     `json:"dumpable"`
	Seccomp      bool     `json:"seccomp"` // a filter is in force
}

// Of reads a process's confinement from /proc. Only root can tell whether it is dumpable.
// Landlock cannot be seen from outside.
func Of(pid int) (Report, error) {
	path := fmt.Sprintf("/proc/%d", pid)
	status, err := proc.StatusIn(path)
	if err != nil {
		return Report{}, err
	}
	report, err := reportOf(status)
	if err != nil {
		return Report{}, fmt.Errorf("%s/status: %w", path, err)
	}
	// The files in the directory of a process that is not dumpable belong to root (man 5
	// proc, /proc/PID).
	var stat unix.Stat_t
	if err := unix.Stat(path+"/io", &stat); err != nil {
		return Report{}, &os.PathError{Op: "stat", Path: path + "/io", Err: err}
	}
	report.Dumpable = stat.Uid == report.UID
	return report, nil
}

func reportOf(status proc.Status) (report Report, err error) {
	number := func(name string, column int) uint32 {
		values := strings.Fields(status[name])
		if column >= len(values) {
			err = fmt.Errorf("it has no %s", name)
			return 0
		}
		n, parseErr := strconv.ParseUint(values[column], 10, 32)
		if parseErr != nil {
			err = fmt.Errorf("its %s is %q", name, values)
		}
		return uint32(n)
	}
	const effective = 1 // after the real one
	report = Report{
		UID: number("Uid", effective), GID: number("Gid", effective), Groups: []uint32{},
		Capabilities: status["CapEff"], NoNewPrivs: number("NoNewPrivs", 0) == 1,
		Seccomp: number("Seccomp", 0) == unix.SECCOMP_MODE_FILTER,
	}
	for i := range strings.Fields(status["Groups"]) {
		report.Groups = append(report.Groups, number("Groups", i))
	}
	if report.Capabilities == "" {
		err = errors.New("it has no CapEff")
	}
	return report, err
}
