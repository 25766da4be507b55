package mounter

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/moby/sys/mountinfo"

	"example.com/pod-info-fuse/internal/mount"
	"example.com/pod-info-fuse/podfuse"
	"example.com/pod-info-fuse/podfuse/wire"
	"example.com/pod-info-fuse/survive/volume"
)

// When the mounter and its spare have died together, nobody listens on the socket any more, and
// nobody can listen on that name again: its file system is read-only. So the new socket is mounted
// in the place of the old one: in the kubelet's directories, for containers to come, and in all
// that have one, for the next start of their programs.

// oldSocket is one that nobody listens on.
type oldSocket struct {
	path   string
	device uint64
	server volume.ID
}

// oldSockets are those of this installation's server volumes in a mount namespace: each beside a
// FIFO.
func (c Config) oldSockets(namespace mount.Namespace, socket uint64) (found []oldSocket, err error) {
	fifos, err := mount.Open(c.Servers())
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

// renewHere mounts the new socket in the mounter's own mount namespace, which is the node's.
func (c Config) renewHere(meta podsMeta) error {
	all, err := c.oldSockets(mount.Own(), meta.Device)
	for _, old := range all {
		renewErr := mount.Own().Do(func() error {
			tree, err := cloneOf(c.Socket())
			if err != nil {
				return err
			}
			defer tree.Close()
			return tree.Replace(old.path, 1, old.device)
		})
		// Where something else covers it, nobody comes to it either.
		if !errors.Is(renewErr, mount.ErrGone) && !errors.Is(renewErr, fs.ErrNotExist) {
			err = errors.Join(err, renewErr)
		}
	}
	return err
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

const (
	// renewTimeout is how long the renewal in all other mount namespaces may take.
	renewTimeout = time.Minute
	// mostRenewed is how many sockets of one pod a renewal replaces. Each takes a child of root's,
	// and root of a pod can mount a volume as often as it likes.
	mostRenewed = mostStandIns
)

// otherSocket is an old socket in another mount namespace.
type otherSocket struct {
	oldSocket
	namespace mount.Namespace
	record    volume.Record // of the server volume
}

// renew mounts the new socket in our mount namespace, and then in all others. Where that fails, the
// container's program cannot serve any more when it dies, until the container is started anew. If
// some sockets could not be looked for, a later mend tries again.
func (m *shared) renew(meta podsMeta) {
	hereErr := m.renewHere(meta)
	if hereErr != nil { // only the volumes that it names lack the new socket
		m.log("give volumes the new socket: %v; it is tried again", hereErr)
	}
	begun := time.Now()
	until := begun.Add(renewTimeout)
	pods, all := m.socketsElsewhere(meta, begun.Add(renewTimeout/2))
	// One turn for each pod: pods whose sockets take long do not keep the others waiting.
	uids := slices.Collect(maps.Keys(pods))
	ended := together(len(uids), time.Until(until), func(i int) { m.renewPod(uids[i], pods[uids[i]], until) })
	ended = ended && time.Now().Before(until) // or turns have ended because their time was up
	m.do(func() {
		m.renews = false
		var now podsMeta
		if _, kept := m.set.Get(podsName, &now); !kept || now != meta {
			return // there is another socket by now
		}
		m.renewNext = time.Now().Add(min(10*time.Since(begun), renewTimeout)) // or one pod could keep the mounter busy for ever
		if hereErr == nil && all && ended {
			meta.Renewed = true
			m.set.Note(podsName, meta)
		}
	})
}

// socketsElsewhere lists the old sockets in other mount namespaces by pod, one more than
// mostRenewed of a pod at most. all is false if there may be others.
func (m *shared) socketsElsewhere(meta podsMeta, until time.Time) (pods map[string][]otherSocket, all bool) {
	namespaces, untold, err := mount.Others()
	if err != nil {
		m.log("give containers the new socket: %v; it is tried again", err)
		return nil, false
	}
	// A pod may have many long tables. In another order each time, the other pods have their turn.
	rand.Shuffle(len(namespaces), func(i, j int) { namespaces[i], namespaces[j] = namespaces[j], namespaces[i] })
	all, pods = len(untold) == 0, map[string][]otherSocket{}
	for _, namespace := range namespaces {
		if !time.Now().Before(until) {
			return pods, false
		}
		sockets, err := m.oldSockets(namespace, meta.Device)
		if err != nil && !errors.Is(err, mount.ErrLong) { // which stays, and no program of it may serve
			all = false // its process has ended, but others may be in the namespace
		}
		records := map[volume.ID]volume.Record{}
		for _, old := range sockets {
			record, known := records[old.server]
			if !known {
				record, _ = m.ServerVolumes().Get(old.server)
				records[old.server] = record
			}
			uid := podfuse.PlainUID(record.PodUID)
			if record.Dir == "" || len(pods[uid]) > mostRenewed { // the volume was unmounted
				continue
			}
			pods[uid] = append(pods[uid], otherSocket{old, namespace, record})
		}
	}
	return pods, all
}

// renewPod replaces a pod's old sockets, one after the other.
func (m *shared) renewPod(uid string, sockets []otherSocket, until time.Time) {
	var problems []error
	if len(sockets) > mostRenewed {
		sockets = sockets[:mostRenewed]
		problems = append(problems, fmt.Errorf("it has more than %d sockets", mostRenewed))
	}
	for _, old := range sockets {
		left := time.Until(until)
		if left <= 0 {
			return // renew does not wait any more
		}
		err := inNamespace(old.namespace, cgroup{pod: uid}, func(p *process) error {
			j := job{Kind: "socket", Dir: m.Socket(), PID: p.PID, Path: old.path, Device: old.device}
			return m.enter(uid, mostHanging, min(childTime, left), j, p.File)
		})
		if err != nil && !errors.Is(err, errAgain) {
			problems = append(problems, fmt.Errorf("server volume %s, in the container of process %d: %w",
				old.server, old.namespace.PID, err))
		}
	}
	if len(problems) > 0 { // one line: the pod could have many
		m.log("pod %s keeps sockets that nobody listens on, for %d reasons, first: %v", uid, len(problems), problems[0])
	}
}

// renewSocket is the errand.
func renewSocket(j job) (result, error) {
	tree, err := cloneOf(j.Dir)
	if err != nil {
		return result{}, err
	}
	defer tree.Close()
	return result{}, inContainer(j.PID, func() error { return again(tree.Replace(j.Path, 1, j.Device)) })
}
