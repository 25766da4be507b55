package steady

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
)

// The figures of a process that others ask for by their names.
const (
	Private     = "USS KiB"
	Descriptors = "descriptors"
)

// measures are what a process takes, and by how much that may grow while the
// load is steady.
var measures = [...]measure{
	// The runtime collects garbage when it likes, by some hundred KiB.
	{Private, func(pid int) (int, error) { return memory(pid, "Private_Dirty", "Private_Clean") }, 1024},
	// Of the executable's pages, the kernel maps as many as it likes.
	{"RSS KiB", func(pid int) (int, error) { return memory(pid, "Rss") }, anything},
	// The runtime ends no thread, and starts one when more than ever are in a
	// system call at the same time.
	{"threads", func(pid int) (int, error) { return entries(pid, "task") }, 3},
	{Descriptors, func(pid int) (int, error) { return entries(pid, "fd") }, 0},
}

type measure struct {
	name   string
	of     func(pid int) (int, error)
	growth int
}

// anything is more than any of them can grow.
const anything = 1 << 30

func (m measure) allowed() string {
	if m.growth == anything {
		return "any"
	}
	return strconv.Itoa(m.growth)
}

// sample has a number for each of the measures.
type sample [len(measures)]int

func sampleOf(pid int) (s sample, err error) {
	for i, m := range measures {
		if s[i], err = m.of(pid); err != nil {
			return s, fmt.Errorf("measure the %s of process %d: %w", m.name, pid, err)
		}
	}
	return s, nil
}

// memory adds up some kinds of a process's memory, in KiB.
func memory(pid int, kinds ...string) (sum int, err error) {
	rollup, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		return 0, err
	}
	for _, kind := range kinds {
		_, rest, _ := bytes.Cut(rollup, []byte("\n"+kind+":"))
		value, _, _ := bytes.Cut(rest, []byte(" kB"))
		n, err := strconv.Atoi(string(bytes.TrimSpace(value)))
		if err != nil {
			return 0, fmt.Errorf("no %s in %q", kind, rollup)
		}
		sum += n
	}
	return sum, nil
}

// figures are the sample's, by their names.
func (s sample) figures() map[string]float64 {
	all := map[string]float64{}
	for i, m := range measures {
		all[m.name] = float64(s[i])
	}
	return all
}

// entries counts what is in a directory of a process below /proc.
func entries(pid int, name string) (int, error) {
	all, err := os.ReadDir(fmt.Sprintf("/proc/%d/%s", pid, name))
	return len(all), err
}
