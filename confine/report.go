package confine

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Report is what confines a process, as the kernel tells.
type Report struct {
	UID          uint32   `json:"uid"` // effective
	GID          uint32   `json:"gid"`
	Groups       []uint32 `json:"groups"`       // supplementary
	Capabilities string   `json:"capabilities"` // effective, as a hexadecimal number
	NoNewPrivs   bool     `json:"noNewPrivs"`
	Dumpable     bool     `json:"dumpable"`
	Seccomp      bool     `json:"seccomp"` // a filter is in force
}

// Of reads from /proc what confines a process. Only root can tell whether it is
// dumpable. Landlock is not to be seen from outside.
func Of(pid int) (Report, error) {
	path := fmt.Sprintf("/proc/%d", pid)
	status, err := os.ReadFile(path + "/status")
	if err != nil {
		return Report{}, err
	}
	report, err := parseStatus(status)
	if err != nil {
		return Report{}, fmt.Errorf("%s/status: %w", path, err)
	}
	// What is in the directory of a process that is not dumpable belongs to root
	// (man 5 proc, /proc/PID).
	var stat unix.Stat_t
	if err := unix.Stat(path+"/io", &stat); err != nil {
		return Report{}, &os.PathError{Op: "stat", Path: path + "/io", Err: err}
	}
	report.Dumpable = stat.Uid == report.UID
	return report, nil
}

// parseStatus reads the lines of /proc/PID/status that matter (man 5 proc).
func parseStatus(status []byte) (report Report, err error) {
	fields := map[string][]string{}
	for line := range bytes.Lines(status) {
		name, values, _ := strings.Cut(string(line), ":")
		if _, twice := fields[name]; !twice {
			fields[name] = strings.Fields(values)
		}
	}
	number := func(name string, column int) uint32 {
		if column >= len(fields[name]) {
			err = fmt.Errorf("it has no %s", name)
			return 0
		}
		n, parseErr := strconv.ParseUint(fields[name][column], 10, 32)
		if parseErr != nil {
			err = fmt.Errorf("its %s is %q", name, fields[name])
		}
		return uint32(n)
	}
	const effective = 1 // after the real one
	report = Report{
		UID: number("Uid", effective), GID: number("Gid", effective), Groups: []uint32{},
		NoNewPrivs: number("NoNewPrivs", 0) == 1,
		Seccomp:    number("Seccomp", 0) == unix.SECCOMP_MODE_FILTER,
	}
	for i := range fields["Groups"] {
		report.Groups = append(report.Groups, number("Groups", i))
	}
	if caps := fields["CapEff"]; len(caps) == 1 {
		report.Capabilities = caps[0]
	} else {
		err = errors.New("it has no CapEff")
	}
	return report, err
}
