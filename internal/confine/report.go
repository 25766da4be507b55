package confine

import (
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
	// ReadableBinary: everybody can read the binary, and so a process of the user can trace
	// another one that has just been started. False where that is not known.
	ReadableBinary bool `json:"readableBinary"`
	Seccomp        bool `json:"seccomp"` // a filter is in force
	Landlock       bool `json:"landlock"`
}

// Of reads a process's confinement from /proc. Only root can tell whether it is dumpable.
// Landlock cannot be seen from outside: the caller sets that.
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
	var binary unix.Statx_t
	// It fails where the process is ending, and where this one has no CAP_SYS_PTRACE, as an
	// installer has not.
	if unix.Statx(unix.AT_FDCWD, path+"/exe", unix.AT_STATX_DONT_SYNC, unix.STATX_MODE, &binary) == nil {
		report.ReadableBinary = binary.Mode&0o004 != 0
	}
	return report, nil
}

func reportOf(status proc.Status) (report Report, err error) {
	var before uint32 // the real id, before the effective one
	var noNewPrivs, mode int
	for _, line := range []struct {
		name   string
		values []any
	}{
		{"Uid", []any{&before, &report.UID}}, {"Gid", []any{&before, &report.GID}},
		{"CapEff", []any{&report.Capabilities}}, {"NoNewPrivs", []any{&noNewPrivs}}, {"Seccomp", []any{&mode}},
	} {
		if _, err := fmt.Sscan(status[line.name], line.values...); err != nil {
			return report, fmt.Errorf("its %s is %q", line.name, status[line.name])
		}
	}
	report.NoNewPrivs, report.Seccomp = noNewPrivs == 1, mode == unix.SECCOMP_MODE_FILTER
	report.Groups = []uint32{} // not null
	for _, group := range strings.Fields(status["Groups"]) {
		n, err := strconv.ParseUint(group, 10, 32)
		if err != nil {
			return report, fmt.Errorf("its Groups are %q", status["Groups"])
		}
		report.Groups = append(report.Groups, uint32(n))
	}
	return report, nil
}
