package mounter

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"github.com/moby/sys/mountinfo"

	"example.com/pod-info-fuse/internal/mount"
	"example.com/pod-info-fuse/podfuse/wire"
	"example.com/pod-info-fuse/survive/volume"
)

// When the mounter and its spare have died together, nobody listens on the socket any more, and
// nobody can listen on that name again: its file system is read-only. So the new socket is mounted
// in the place of the old one: in the kubelet's directories, for containers to come, and in the
// containers of the pods whose programs are recovered, for the next start of these. A program that
// was dead by then asks in vain, until its container is started anew.

// oldSockets are those of this installation's server volumes in a mount namespace that are not on a
// device: each beside a FIFO.
func (c Config) oldSockets(namespace mount.Namespace, now uint64) (found []standIn, err error) {
	fifos, err := mount.Open(c.Servers())
	if err != nil {
		return nil, err
	}
	defer fifos.Close()
	servers := map[string]bool{} // directories
	var sockets []*mountinfo.Info
	all, err := namespace.Mounts("tmpfs", wire.Source)
	for _, info := range all {
		dir, name := filepath.Split(info.Mountpoint)
		switch {
		case name == wire.Device && deviceOf(info) == fifos.Device():
			_, idErr := volume.ParseID(strings.TrimPrefix(info.Root, "/"))
			servers[dir] = idErr == nil
		case name == wire.Socket && info.Root == "/"+wire.Socket && deviceOf(info) != now:
			sockets = append(sockets, info)
		}
	}
	for _, info := range sockets {
		if servers[strings.TrimSuffix(info.Mountpoint, wire.Socket)] {
			found = append(found, standIn{Path: info.Mountpoint, Above: 1, Top: deviceOf(info)})
		}
	}
	return found, err
}

// renewHere mounts the new socket in the mounter's own mount namespace, which is the node's.
func (m *shared) renewHere(meta podsMeta) {
	all, err := m.oldSockets(mount.Own(), meta.Device)
	for _, old := range all {
		renewErr := mount.Own().Do(func() error {
			tree, err := cloneOf(m.Socket())
			if err != nil {
				return err
			}
			defer tree.Close()
			return tree.Replace(old.Path, old.Above, old.Top)
		})
		// Where something else covers it, nobody comes to it either.
		if !errors.Is(renewErr, mount.ErrGone) && !errors.Is(renewErr, fs.ErrNotExist) {
			err = errors.Join(err, renewErr)
		}
	}
	if err != nil { // only the volumes that it names lack the new socket
		m.log("give volumes the new socket: %v; it is tried again", err)
	}
	m.do(func() { m.renews, m.renewed = false, err == nil })
}

// renewIn mounts the new socket in the containers of a pod that have an old one. Root of the pod
// can mount a volume as often as it likes: so many are renewed as paths of a container are served.
func (m *recovery) renewIn(pod cgroup, until time.Time) error {
	var meta podsMeta
	kept := false
	m.do(func() { _, kept = m.set.Get(podsName, &meta) })
	if !kept {
		return nil // status tells why
	}
	namespaces, err := pod.namespaces()
	for _, namespace := range namespaces {
		err = errors.Join(err, inNamespace(namespace, pod, func(p *process) error {
			old, err := m.oldSockets(mount.Namespace{PID: p.PID}, meta.Device)
			left := time.Until(until)
			if err != nil || len(old) == 0 || left <= 0 {
				return err
			}
			j := job{Kind: "socket", PID: p.PID, Path: m.Socket(), StandIns: old[:min(len(old), mostStandIns)]}
			return m.enter(pod.pod, mostHanging, min(childTime, left), j, p.File)
		}))
	}
	return err
}

// renewSockets is the errand of a child.
func renewSockets(j job) (result, error) {
	var trees []*mount.Tree
	for range j.StandIns { // before it is in the container
		tree, err := cloneOf(j.Path)
		if err != nil {
			return result{}, err
		}
		trees = append(trees, tree)
	}
	return result{}, inContainer(j.PID, func() (err error) {
		for i, s := range j.StandIns {
			err = errors.Join(err, again(trees[i].Replace(s.Path, s.Above, s.Top)))
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
