package node

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/mount"
	"example.com/pod-info-fuse/volume"
)

// Healed is a dead mount and what became of it.
type Healed struct {
	PID     int    // a process in the mount namespace; 0: the node's own
	Command string // of that process
	Path    string // as that process sees it
	Volume  volume.Record
	Err     error // nil: the volume is there again
}

// heal puts the living file system in the place of dead ones, wherever they are
// mounted: in the kubelet's directories, and in every container. The kubelet does
// neither: it never calls mount again for a volume that it believes mounted.
func (n Node) heal() []Healed {
	all := n.healNamespaces()
	if !slices.ContainsFunc(all, func(h Healed) bool { return h.Err != nil }) {
		n.noteHealed()
	}
	return all
}

func (n Node) healNamespaces() (all []Healed) {
	state, device, err := n.mountState()
	if err != nil || state != MountOK {
		return []Healed{{Path: n.fsPath(), Err: fmt.Errorf("the node mount is %s", state)}}
	}
	// Our own namespace first: what changes in it propagates to some others.
	all = n.healNamespace(mount.Own(), device)
	others, err := mount.Others()
	if err != nil {
		return append(all, Healed{Path: "/proc", Err: err})
	}
	for _, namespace := range others {
		healed := n.healNamespace(namespace, device)
		for i := range healed {
			healed[i].PID = namespace.PID
			healed[i].Command = command(namespace.PID)
		}
		all = append(all, healed...)
	}
	return all
}

// healNamespace heals the dead mounts in a namespace.
func (n Node) healNamespace(namespace mount.Namespace, living uint64) (all []Healed) {
	infos, err := namespace.Mounts(mount.Type, n.Driver.String())
	if err != nil {
		return nil // the namespace's last process has ended
	}
	dead := map[string][]*mountinfo.Info{} // by path: they may be stacked
	for _, info := range infos {
		if unix.Mkdev(uint32(info.Major), uint32(info.Minor)) != living {
			dead[info.Mountpoint] = append(dead[info.Mountpoint], info)
		}
	}
	for path, stack := range dead {
		record, err := n.replace(namespace, path, stack)
		all = append(all, Healed{Path: path, Volume: record, Err: err})
	}
	return all
}

// replace puts the volume in the place of the dead mounts on a path.
func (n Node) replace(namespace mount.Namespace, path string, stack []*mountinfo.Info) (volume.Record, error) {
	// Where the entry was dropped from the kernel's cache, a mark follows it
	// (fs/proc_namespace.c, show_mountinfo).
	root := strings.TrimSuffix(stack[len(stack)-1].Root, "//deleted")
	record, err := n.recordOf(root)
	if err != nil {
		return record, err
	}
	tree, err := cloneWithin(patience, filepath.Join(n.fsPath(), root))
	if err != nil {
		return record, err
	}
	defer tree.Close()
	return record, namespace.Do(func() error { return tree.Replace(path, len(stack)) })
}

// recordOf returns the record of the volume that a path below the node mount
// belongs to: "/<id>", or "/<id>/pod.uid" for a subPath.
// "/" is the node mount itself, in a namespace that was copied from ours.
func (n Node) recordOf(root string) (volume.Record, error) {
	if root == "/" {
		return volume.Record{}, nil
	}
	name, _, _ := strings.Cut(strings.TrimPrefix(root, "/"), "/")
	id, err := volume.ParseID(name)
	if err != nil {
		return volume.Record{}, fmt.Errorf("%q is not in a volume", root)
	}
	record, err := n.Volumes().Get(id)
	if errors.Is(err, os.ErrNotExist) {
		return record, errors.New("the volume was unmounted: it has no record")
	}
	return record, err
}

// cloneWithin clones a tree, for which the daemon must answer.
func cloneWithin(limit time.Duration, source string) (*mount.Tree, error) {
	type result struct {
		tree *mount.Tree
		err  error
	}
	done := make(chan result, 1)
	go func() {
		tree, err := mount.CloneTree(source)
		done <- result{tree, err}
	}()
	select {
	case r := <-done:
		return r.tree, r.err
	case <-time.After(limit):
		return nil, errors.New("the daemon does not answer")
	}
}

func command(pid int) string {
	name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	return strings.TrimSpace(string(name))
}

// String is a line for people.
func (h Healed) String() string {
	where := h.Path
	if h.PID != 0 {
		where = fmt.Sprintf("%s in the container of process %d (%s)", h.Path, h.PID, h.Command)
	}
	pod := ""
	if h.Volume.PodUID != "" {
		pod = fmt.Sprintf(", pod %s/%s", h.Volume.PodNamespace, h.Volume.PodName)
	}
	if h.Err != nil {
		return fmt.Sprintf("not healed: %s%s: %v", where, pod, h.Err)
	}
	return fmt.Sprintf("healed: %s%s", where, pod)
}

func (n Node) logHealed(all []Healed) {
	for _, h := range all {
		n.Log("%s", h)
	}
}
