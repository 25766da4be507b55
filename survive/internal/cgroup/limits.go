package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// The most that a driver's pair can take of the node together, far above its needs: each
// process has about 8 threads, and some 2 MB. setrlimit(2) cannot bound the pair: the kernel
// counts threads for the user, whom other processes may be, too.
const (
	MaxThreads = 256
	MaxMemory  = 512 << 20 // bytes
)

// Limits are those of a process's cgroup, which its children share.
type Limits struct {
	Threads uint64 `json:"threads,omitempty"` // 0: none
	Memory  uint64 `json:"memory,omitempty"`  // bytes; 0: none
}

// limit is one that a cgroup can have: "PIDs Interface Files" and "memory.max" in
// cgroup-v2.rst, cgroup-v1/pids.rst and cgroup-v1/memory.rst.
type limit struct {
	controller string
	file, v1   string // its name in cgroup v2, and in v1
	most       uint64
}

var (
	threads = limit{"pids", "pids.max", "pids.max", MaxThreads} // if the caller says no other number
	memory  = limit{"memory", "memory.max", "memory.limit_in_bytes", MaxMemory}
)

// limits returns the limits that cgroups can have right below the hierarchy's root, with so many
// threads.
func (h hierarchy) limits(most int) (list []limit) {
	if h.root == "" {
		return nil
	}
	controllers := h.controllers
	if h.unified() {
		// The controllers that the root passes on. The manager of the node's cgroups decides
		// which.
		text, _ := os.ReadFile(filepath.Join(h.root, "cgroup.subtree_control"))
		controllers = strings.Fields(string(text))
	}
	threads := threads
	threads.most = uint64(most)
	for _, l := range []limit{threads, memory} {
		if slices.Contains(controllers, l.controller) {
			list = append(list, l)
		}
	}
	return list
}

func (l limit) name(h hierarchy) string {
	if h.unified() {
		return l.file
	}
	return l.v1
}

// limit limits a cgroup. It skips a limit for which the kernel has no file.
func (h hierarchy) limit(group string, list []limit) (failed error) {
	for _, l := range list {
		err := write(filepath.Join(group, l.name(h)), strconv.FormatUint(l.most, 10))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			failed = join(failed, fmt.Errorf("limit the daemon: %w", err))
		}
	}
	return failed
}

// LimitsOf returns the limits of the process's own cgroups, as far as this process can see
// them.
func LimitsOf(pid int) Limits {
	all, _ := hierarchies(pid)
	return Limits{Threads: threads.in(all), Memory: memory.in(all)}
}

// in returns the limit in a process's cgroups; 0: there is none, which v2 calls max, and v1 a
// number near 2^63.
func (l limit) in(all []hierarchy) (most uint64) {
	for _, h := range all {
		if h.dir() == "" || !h.unified() && !slices.Contains(h.controllers, l.controller) {
			continue
		}
		text, _ := os.ReadFile(filepath.Join(h.dir(), l.name(h)))
		n, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
		if err == nil && n <= 1<<62 {
			most = max(most, n)
		}
	}
	return most
}
