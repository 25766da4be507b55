package mounter

import (
	"errors"
	"path/filepath"
	"strings"
	"time"

	"github.com/moby/sys/mountinfo"

	"example.com/pod-info-fuse/internal/mount"
	"example.com/pod-info-fuse/internal/proc"
	"example.com/pod-info-fuse/podfuse"
	"example.com/pod-info-fuse/podfuse/wire"
	"example.com/pod-info-fuse/survive/volume"
)

// When the mounter and its spare have died together, nobody listens on the socket any more, and nobody
// can listen on that name again: its file system is read-only. So the new socket is mounted in the
// place of the old one: in the kubelet's directories, for containers to come, and in all that have
// one, for the next start of their programs.

// oldSocket is one that nobody listens on.
type oldSocket struct {
	path   string
	device uint64
	server volume.ID
}

// oldSockets are those of this installation's server volumes in a mount namespace: each beside a FIFO.
func (m *mounter) oldSockets(namespace mount.Namespace, socket uint64) (found []oldSocket, err error) {
	fifos, err := mount.Open(m.Servers())
	if err != nil {
		return nil, err
	}
	defer fifos.Close()
	servers := map[string]volume.ID{} // by directory
	var sockets []*mountinfo.Info
	all, err := namespace.Mounts("tmpfs", wire.Source)
	for _, info := range all {
		dir, name := filepath.Split(info.Mountpoint)
		switch {
		case name == wire.Device && deviceOf(info) == fifos.Device():
			if id, err := volume.ParseID(strings.TrimPrefix(info.Root, "/")); err == nil {
				servers[dir] = id
			}
		case name == wire.Socket && info.Root == "/"+wire.Socket && deviceOf(info) != socket:
			sockets = append(sockets, info)
		}
	}
	for _, info := range sockets {
		if id, is := servers[strings.TrimSuffix(info.Mountpoint, wire.Socket)]; is {
			found = append(found, oldSocket{info.Mountpoint, deviceOf(info), id})
		}
	}
	return found, err
}

// renewHere mounts the new socket in the mounter's own mount namespace, which is the kubelet's.
func (m *mounter) renewHere(meta podsMeta) error {
	all, err := m.oldSockets(mount.Own(), meta.Device)
	for _, old := range all {
		renewErr := mount.Own().Do(func() error { return putSocket(m.Socket(), old.path, old.device) })
		if !errors.Is(renewErr, mount.ErrGone) {
			err = errors.Join(err, renewErr)
		}
	}
	return err
}

func putSocket(socket, path string, device uint64) error {
	source, err := mount.OpenFile(socket)
	if err != nil {
		return err
	}
	defer source.Close()
	tree, err := source.Clone()
	if err != nil {
		return err
	}
	defer tree.Close()
	return tree.Replace(path, 1, device)
}

// renewElsewhere mounts it in all others. Where that fails, the container's program cannot serve any more
// when it dies, until the container is started anew.
func (m *mounter) renewElsewhere(meta podsMeta) {
	namespaces, _, err := mount.Others()
	if err != nil {
		m.log("give containers the new socket: %v", err)
	}
	together(len(namespaces), renewTime, func(i int) { m.renewIn(namespaces[i], meta) })
	m.do(func() {
		m.renews = false
		var now podsMeta
		if _, kept := m.set.Get(podsName, &now); kept && now == meta {
			meta.Renewed = true
			m.set.Note(podsName, meta)
		}
	})
}

// renewTime is how long all of it may take.
const renewTime = time.Minute

func (m *mounter) renewIn(namespace mount.Namespace, meta podsMeta) {
	all, err := m.oldSockets(namespace, meta.Device)
	if err != nil {
		return // its process has ended
	}
	for _, old := range all {
		server, err := m.ServerVolumes().Get(old.server)
		if err != nil {
			continue // it was unmounted
		}
		client, err := podfuse.Client(server)
		if err == nil {
			err = inNamespace(namespace, podfuse.PlainUID(server.PodUID), func(p *process) error {
				j := job{Kind: "socket", Dir: m.Socket(), PID: p.pid, Path: old.path, Device: old.device}
				return m.enter(client, mostHanging, childTime, j, p.fd)
			})
		}
		if err != nil && !errors.Is(err, errAgain) {
			m.log("server volume %s keeps a socket that nobody listens on, in the container of process %d: %v", old.server, namespace.PID, err)
		}
	}
}

// renewSocket is the errand.
func renewSocket(j job) (result, error) {
	there, err := openContainer(j.PID)
	if err != nil {
		return result{}, err
	}
	source, err := mount.OpenFile(j.Dir)
	if err != nil {
		return result{}, err
	}
	defer source.Close()
	tree, err := source.Clone()
	if err != nil {
		return result{}, err
	}
	defer tree.Close()
	return result{}, proc.OnThread(func() error {
		if err := there.enter(); err != nil {
			return err
		}
		return again(tree.Replace(j.Path, 1, j.Device))
	})
}
