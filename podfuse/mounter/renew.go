package mounter

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/moby/sys/mountinfo"

	"example.com/pod-info-fuse/internal/mount"
	"example.com/pod-info-fuse/podfuse/wire"
	"example.com/pod-info-fuse/survive/volume"
)

// When the mounter and its spare have died together, nobody listens on the socket any more, and
// nobody can listen on that name again: its file system is read-only. So the new socket is mounted
// in the place of the old one: in the kubelet's directories, for containers to come, and in all
// that have one, for the next start of their programs. It is a part of recovery, which tries again
// what has failed.

// oldSockets are those of some server volumes in a mount namespace that are not on a device: each
// beside a FIFO.
func (c Config) oldSockets(namespace mount.Namespace, servers []volume.Record, device uint64) (found []standIn, err error) {
	fifos, err := mount.Open(c.Servers())
	if err != nil {
		return nil, err
	}
	defer fifos.Close()
	dirs := map[string]bool{} // of the server volumes
	var sockets []*mountinfo.Info
	all, err := namespace.Mounts("tmpfs", wire.Source)
	for _, info := range all {
		dir, name := filepath.Split(info.Mountpoint)
		switch {
		case name == wire.Device && deviceOf(info) == fifos.Device():
			if slices.ContainsFunc(servers, func(server volume.Record) bool { return info.Root == "/"+server.ID().String() }) {
				dirs[dir] = true
			}
		case name == wire.Socket && info.Root == "/"+wire.Socket && deviceOf(info) != device:
			sockets = append(sockets, info)
		}
	}
	for _, info := range sockets {
		if dirs[strings.TrimSuffix(info.Mountpoint, wire.Socket)] {
			found = append(found, standIn{Path: info.Mountpoint, Top: deviceOf(info)})
		}
	}
	return found, err
}

// renew mounts the new socket in the place of the old ones that a pod's server volumes have in some
// mount namespaces. Where that fails, the container's program cannot serve any more when it dies,
// until it is tried again, or the container is started anew.
func (m *recovery) renew(servers []volume.Record, pod cgroup, namespaces []mount.Namespace) error {
	var meta podsMeta
	kept := false
	m.do(func() { _, kept = m.set.Get(podsName, &meta) })
	if !kept {
		return errNoSocket
	}
	var problems []error
	for _, namespace := range namespaces {
		old, err := m.oldSockets(namespace, servers, meta.Device)
		if len(old) > mostStandIns {
			old, err = old[:mostStandIns], fmt.Errorf("a container has more than %d sockets", mostStandIns)
		}
		if len(old) > 0 {
			err = errors.Join(err, inNamespace(namespace, pod, func(p *process) error {
				j := job{Kind: "socket", Dir: m.Socket(), PID: p.PID, StandIns: old}
				return m.enter(pod.pod, mostHanging, childTime, j, p.File)
			}))
		}
		problems = append(problems, err)
	}
	if err := errors.Join(problems...); err != nil {
		return fmt.Errorf("mount the socket of programs: %v", err) // it keeps no program from serving
	}
	return nil
}

// renewHere does so in the mounter's own mount namespace, which is the kubelet's.
func (m *recovery) renewHere(servers []volume.Record, pod cgroup) error {
	own, err := mount.Of(os.Getpid())
	if err != nil {
		return err
	}
	return m.renew(servers, pod, []mount.Namespace{own})
}

// renewSockets is the errand of a child.
func renewSockets(j job) (result, error) {
	var trees []*mount.Tree
	for range j.StandIns {
		tree, err := cloneOf(j.Dir)
		if err != nil {
			return result{}, err
		}
		trees = append(trees, tree)
	}
	return result{}, inContainer(j.PID, func() (err error) {
		for i, old := range j.StandIns {
			// Where something else covers it, nobody comes to it either.
			if renewErr := again(trees[i].Replace(old.Path, 1, old.Top)); !errors.Is(renewErr, errAgain) {
				err = errors.Join(err, renewErr)
			}
		}
		return err
	})
}

// cloneOf clones the mount of a file.
func cloneOf(path string) (*mount.Tree, error) {
	source, err := mount.OpenFile(path)
	if err != nil {
		return nil, err
	}
	defer source.Close()
	return source.Clone()
}
