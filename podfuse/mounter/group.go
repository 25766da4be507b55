package mounter

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/internal/later"
	"example.com/pod-info-fuse/internal/mount"
	"example.com/pod-info-fuse/internal/proc"
	"example.com/pod-info-fuse/podfuse"
	"example.com/pod-info-fuse/survive/volume"
)

// The kubelet gives each pod a cgroup, with one below it for each container. Its files cgroup.procs
// list the processes of the pod (man 7 cgroups), so that the cost of a look at them does not grow
// with the node's processes. Where the kubelet makes none (cgroupsPerQOS: false), or where the
// hierarchy is not mounted here, all processes of the node are looked at.

// looks at the processes of a pod are one after the other: a pod with many processes, and with many
// volumes to look for, could otherwise keep all processors busy.
var looks = later.Queue[string]{AtOnce: mostOrders}

// cgroup is that of a pod, whose processes are looked at.
type cgroup struct {
	pod string // the pod's UID without dashes; "": all processes that are in no pod
	dir string // "" if it is not known
}

// cgroupOf is that of a volume's pod. The programs that have served the volume are in it.
func (m *table) cgroupOf(record volume.Record) cgroup {
	of := cgroup{pod: podfuse.PlainUID(record.PodUID)}
	m.do(func() {
		if client := m.volumes[record.ID()]; client != nil {
			for _, c := range client.all() {
				of.dir = cmp.Or(c.Peer.Group, of.dir)
			}
		}
	})
	return of
}

// processes are those of the pod, and where its cgroup is not known, others that may be: no pod has
// a cgroup of its own where the kubelet makes none.
func (g cgroup) processes() (own, others []int, err error) {
	if g.dir != "" {
		if own, err = processesIn(g.dir); errors.Is(err, os.ErrNotExist) {
			err = nil // the pod has ended
		}
		return own, nil, err
	}
	pids, err := proc.PIDs()
	if err != nil {
		return nil, nil, err
	}
	for _, pid := range pids {
		pods, err := podsOf(pid)
		switch {
		case proc.IsShort(err):
			return nil, nil, err
		case g.pod != "" && slices.Contains(pods, g.pod):
			own = append(own, pid)
		case err == nil && (len(pods) == 0 || g.pod == ""):
			others = append(others, pid)
		}
	}
	return own, others, nil
}

// namespaces are the mount namespaces that the pod's containers may have. What another pod's
// processes are in, the kernel may not tell, and that is nobody else's trouble.
func (g cgroup) namespaces() ([]mount.Namespace, error) {
	defer looks.Take(g.pod)()
	own, others, err := g.processes()
	if err != nil {
		return nil, err
	}
	most := math.MaxInt
	if len(own) > 0 {
		most = mostHidden
	}
	namespaces, _, err := mount.OthersOf(slices.Concat(own, others), most)
	return namespaces, err
}

// groupOf returns the directory of the pod's cgroup that a process is in, "" if there is none.
func groupOf(pid int) string {
	text, err := proc.Read(fmt.Sprintf("/proc/%d/cgroup", pid), nil, podfuse.MostCgroup)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(text)) { // ID:CONTROLLERS:PATH
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) != 3 {
			continue
		}
		below, _ := podfuse.PodGroup(fields[2])
		if below == "" {
			continue
		}
		for _, root := range hierarchies(fields[1]) {
			group := path.Join(root, below)
			// A path that begins with /.. is one outside of this process's cgroup namespace.
			if pids, err := processesIn(group); err == nil && slices.Contains(pids, pid) {
				return group
			}
		}
	}
	return ""
}

// hierarchies are the places where systemd and container runtimes mount a hierarchy.
func hierarchies(controllers string) []string {
	const root = "/sys/fs/cgroup/"
	if controllers == "" {
		return []string{root, root + "unified"} // cgroup v2, alone and beside v1
	}
	return []string{root + strings.TrimPrefix(controllers, "name=")}
}

// mostGroups is how many cgroups of a pod are looked at. A container that has its cgroup for itself
// can make more; the processes in these are then not seen to serve its volume.
const mostGroups = 1024

// processesIn lists the processes in a cgroup and in those below it.
func processesIn(group string) (pids []int, err error) {
	left := mostGroups
	err = filepath.WalkDir(group, func(name string, entry os.DirEntry, err error) error {
		switch {
		case errors.Is(err, os.ErrNotExist) && name != group: // it has ended
			return nil
		case err != nil:
			return err
		case !entry.IsDir():
			return nil
		}
		if left--; left < 0 {
			return filepath.SkipAll
		}
		text, err := os.ReadFile(filepath.Join(name, "cgroup.procs"))
		switch {
		// EOPNOTSUPP: of a threaded cgroup, whose processes the one above lists.
		case name != group && errors.Is(err, os.ErrNotExist), errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.ENODEV):
			return nil
		case err != nil:
			return err
		}
		for number := range strings.FieldsSeq(string(text)) {
			if pid, err := strconv.Atoi(number); err == nil && pid > 0 { // 0: in another PID namespace
				pids = append(pids, pid)
			}
		}
		return nil
	})
	return pids, err
}
