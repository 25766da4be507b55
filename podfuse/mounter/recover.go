package mounter

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/internal/devfuse"
	"example.com/pod-info-fuse/internal/mount"
	"example.com/pod-info-fuse/internal/packet"
	"example.com/pod-info-fuse/internal/proc"
	"example.com/pod-info-fuse/podfuse"
	"example.com/pod-info-fuse/survive/volume"
)

// When the mounter and its spare have died together, the vault is lost, and with it every
// connection. The programs live on, and so do their mounts in containers. The next mounter finds
// both there:
//
//	mountinfo of the pod's processes    what is mounted on stand-ins, and on the program's own mount point
//	descriptors of the pod's processes  the open /dev/fuse of such a mount, taken by pidfd_getfd(2)
//
// A descriptor that a pod has chosen proves nothing. The kernel tells which connection it is of: it
// is mounted once more, and has to show the device of a mount that was found. From then on, the
// connection is like any other.
//
// A program that has died meanwhile has ended its connection. Its mounts are removed, so that
// readers come to the stand-in and wait there, and the next program can mount where this one had.

const (
	// recoverTime is how long a call-out waits for the first look at all volumes: less than for its
	// answer.
	recoverTime = 3 * time.Second
	// buryTime is how long a child may take to find out that a program is dead: the kernel says so
	// at once.
	buryTime = 2 * time.Second
	// recoverPause and mostRecoverPause are those between two looks at what was not found out. It
	// may never be.
	recoverPause     = time.Second
	mostRecoverPause = time.Minute
)

// recovery looks for the programs of a mounter before.
type recovery struct {
	*programs
	recovered chan struct{} // closed when all have been looked for once
}

// beginRecovery looks for the programs of all volumes, if a mounter before was lost with all that
// it kept.
func (m *recovery) beginRecovery() {
	if _, lost := m.set.Get(lostName, nil); !lost {
		close(m.recovered)
		return
	}
	listed := m.listLost()
	go m.recoverAll(listed)
}

// listLost has all volumes looked at, and reports whether it knows which there are.
func (m *recovery) listLost() bool {
	ids, err := m.ServerVolumes().IDs()
	lost := map[volume.ID][]volume.Record{}
	for _, id := range ids {
		server, getErr := m.ServerVolumes().Get(id)
		if proc.IsShort(getErr) {
			err = getErr
		} else if getErr != nil {
			continue // status tells
		}
		if client, err := podfuse.Client(server); err == nil {
			lost[client] = append(lost[client], server)
		}
	}
	if err != nil {
		m.log("find the programs that a mounter before knew: %v; it is tried again", err)
		return false
	}
	for id, servers := range lost {
		m.client(id).lost = servers
	}
	return true
}

func (m *recovery) recoverAll(listed bool) {
	for pause := recoverPause; ; pause = min(2*pause, mostRecoverPause) {
		lost := map[string][]volume.ID{} // by pod: each has one turn, and what hangs keeps its own volumes waiting
		m.do(func() {
			listed = listed || m.listLost()
			for id, client := range m.volumes {
				if client.lost != nil {
					pod := client.lost[0].PodUID
					lost[pod] = append(lost[pod], id)
				}
			}
			if listed && len(lost) == 0 {
				m.set.Drop(lostName)
			}
		})
		pods, until := slices.Collect(maps.Keys(lost)), time.Now().Add(mostRecoverPause)
		together(len(pods), mostRecoverPause, func(i int) {
			for _, id := range lost[pods[i]] {
				if time.Now().Before(until) {
					_ = m.recover(id)
				}
			}
		})
		if pause == recoverPause {
			close(m.recovered)
		}
		if listed && len(lost) == 0 {
			return
		}
		time.Sleep(pause)
	}
}

// recover finds the program of a volume, unless that is known. It returns an error, which it logs a
// few times.
func (m *recovery) recover(id volume.ID) error {
	var servers []volume.Record
	m.do(func() {
		if client := m.volumes[id]; client != nil {
			servers = client.lost
		}
	})
	if servers == nil {
		return nil
	}
	release, err := m.lockVolume(id, time.Now().Add(orderTime))
	if err == nil {
		defer release()
		err = m.recoverLocked(id, servers)
	}
	m.do(func() {
		if err != nil {
			err = fmt.Errorf("find the program that serves it: %w; it is tried again", err)
			m.logFailure(id, "recovery", err)
		} else if client := m.volumes[id]; client != nil {
			client.lost = nil
		}
	})
	return err
}

// recoverLocked finds the program of a volume, and removes the mounts of programs that have died.
// The caller has locked the volume. servers are its server volumes.
func (m *recovery) recoverLocked(id volume.ID, servers []volume.Record) error {
	pod := cgroup{pod: podfuse.PlainUID(servers[0].PodUID)}
	mounts, err := m.lostMounts(id, servers, pod)
	if err != nil || len(mounts) == 0 {
		return err
	}
	var living *connection
	begins := false
	m.do(func() {
		living = m.client(id).living
		begins = living != nil && living.Device == 0
	})
	if begins {
		return errBusy // with a program that has asked meanwhile
	}
	if living == nil {
		if living, err = m.takeConnection(id, servers, mounts, pod); err != nil {
			return err
		}
	}
	hang := map[string]bool{} // namespaces in which the next child would wait, too
	for _, lost := range mounts {
		if living != nil && lost.device == living.Device || hang[lost.namespace.Name] {
			continue
		}
		buryErr := inNamespace(lost.namespace, pod, func(p *process) error {
			return m.enter(pod.pod, mostHangingOut, buryTime, job{Kind: "bury", PID: p.PID, Path: lost.path, Device: lost.device}, p.File)
		})
		if living == nil || errors.Is(buryErr, errAgain) || mayPass(buryErr) { // or it is somebody else's
			err = errors.Join(err, buryErr)
		}
		hang[lost.namespace.Name] = errors.Is(buryErr, errHangs)
	}
	return err
}

// lostMount is a program's mount in a container.
type lostMount struct {
	namespace mount.Namespace
	path      string
	device    uint64
	own       bool // it is the program's own mount point
	noExec    bool
}

// lostMounts finds what programs have mounted of a volume in its pod's containers.
func (c Config) lostMounts(id volume.ID, servers []volume.Record, pod cgroup) (found []lostMount, err error) {
	attributes, err := podfuse.AttributesOf(servers[0])
	if err != nil {
		return nil, err
	}
	record, err := c.Clients().Get(id)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	namespaces, err := pod.namespaces()
	for _, namespace := range namespaces {
		before := len(found)
		err = errors.Join(err, inNamespace(namespace, pod, func(p *process) error {
			found = found[:before] // with another process of the namespace, it is called again
			_, serves := c.serverOf(p, servers)
			_, err := c.standIns(record, p)
			switch {
			case isUnknown(err):
				return err
			case err != nil && !serves:
				return nil // this container has nothing of the volume
			}
			defer takeTables()()
			mounts, err := p.mounts()
			standIns := map[int]string{}
			for _, info := range mounts {
				if info.FSType == c.Type {
					standIns[info.ID] = info.Mountpoint
				}
			}
			for _, info := range mounts {
				if info.Source == attributes.Serves && (info.FSType == "fuse" || strings.HasPrefix(info.FSType, "fuse.")) {
					own, noExec := serves && standIns[info.Parent] != info.Mountpoint, slices.Contains(strings.Split(info.Options, ","), "noexec")
					found = append(found, lostMount{namespace, info.Mountpoint, deviceOf(info), own, noExec})
				}
			}
			return err
		}))
	}
	return found, err
}

// serverOf is the one of some server volumes that a process has.
func (c Config) serverOf(p *process, servers []volume.Record) (id volume.ID, has bool) {
	i := slices.IndexFunc(servers, func(server volume.Record) bool {
		_, _, err := c.checkServer(server.ID(), p)
		return err == nil
	})
	if i < 0 {
		return 0, false
	}
	return servers[i].ID(), true
}

// taken is a connection that a child has taken.
type taken struct {
	PID    int    `json:"pid"` // of a process that has it
	Device uint64 `json:"device"`

	file *os.File // the child's
}

// takeConnection takes the connection of a program that has some mounts; nil: no process has one. A
// child does, as a process may exchange the descriptor for one that takes for ever to close.
func (m *recovery) takeConnection(id volume.ID, servers []volume.Record, mounts []lostMount, pod cgroup) (*connection, error) {
	own, others, err := pod.processes()
	if err != nil {
		return nil, err
	}
	if len(own) > 0 {
		others = nil // the kubelet gives pods cgroups of their own
	}
	take := job{Kind: "take", PIDs: slices.Concat(own, others)}
	for _, lost := range mounts {
		take.Devices = append(take.Devices, lost.device)
	}
	ours, theirs, err := packet.Pair()
	if err != nil {
		return nil, err
	}
	defer ours.Close()
	defer theirs.Close()
	socket, err := packet.New(ours)
	if err != nil {
		return nil, err
	}
	defer socket.Close()
	if err := m.enter(pod.pod, mostHanging, childTime, take, theirs); err != nil {
		return nil, err
	}
	text, files, err := socket.Receive(time.Now())
	if err != nil {
		return nil, nil // it has sent nothing
	}
	var found taken
	var meta connectionMeta
	if err = packet.Decode(text, &found); err == nil {
		meta, err = m.recoveredMeta(id, servers, mounts, found)
	}
	if err != nil || len(files) != 1 {
		packet.Close(files)
		return nil, err
	}
	attributes, err := podfuse.AttributesOf(servers[0])
	if err != nil {
		packet.Close(files)
		return nil, err
	}
	// By its source, the next mounter finds it (lostMounts).
	mounted := fileSystem{Type: "fuse", Source: attributes.Serves, Options: "user_id=0,group_id=0", Flags: unix.MS_NOSUID | unix.MS_NODEV}
	if slices.ContainsFunc(mounts, func(lost lostMount) bool { return lost.device == found.Device && lost.noExec }) {
		mounted.Flags |= unix.MS_NOEXEC // all else is the file system's own
	}
	return m.addRecovered(meta, files[0], mounted)
}

// recoveredMeta is what there is to know of a connection that a process has. Nobody knows which one
// had asked for it.
func (c Config) recoveredMeta(id volume.ID, servers []volume.Record, mounts []lostMount, found taken) (meta connectionMeta, err error) {
	p, err := openProcess(found.PID)
	if err != nil {
		return meta, err
	}
	defer p.Close()
	server, serves := c.serverOf(p, servers)
	if !serves {
		return meta, fmt.Errorf("process %d has the program's connection, and no server volume", found.PID)
	}
	asks, err := identify(p)
	if err != nil {
		return meta, err
	}
	meta = connectionMeta{Volume: id, Server: server, Device: found.Device, Sent: time.Now(), Pod: podfuse.PlainUID(servers[0].PodUID)}
	meta.Peer = identity{Mounts: asks.Mounts, Pod: asks.Pod, Group: asks.Group}
	for _, lost := range mounts {
		switch {
		case lost.device != found.Device:
		case lost.own:
			meta.Mountpoint, meta.Peer.Mounts = lost.path, lost.namespace.Name
		default:
			meta.Served = true // or it was on no stand-in
		}
	}
	status, err := proc.StatusIn(fmt.Sprintf("/proc/%d", p.PID))
	if err != nil {
		return meta, err
	}
	_, err = fmt.Sscan(status["Uid"], &meta.User)
	return meta, errors.Join(err, p.Alive())
}

// addRecovered mounts what a connection serves in the vault, where it is mounted for containers to
// come.
func (m *recovery) addRecovered(meta connectionMeta, file *os.File, mounted fileSystem) (c *connection, err error) {
	served := meta.Served
	meta.Served = false // until it is mounted: a pair that says hello would be told, and nobody tells it of a failure
	m.do(func() {
		if m.client(meta.Volume).living != nil { // the look took longer than another program waits for its end
			err = errBusy
			return
		}
		meta.Generation = m.nextGeneration()
		c = m.addConnection(meta, file)
	})
	if err != nil {
		file.Close()
		return nil, err
	}
	_, err = m.mount(c, mounted)
	pause("recover")
	ended := m.ended(c)
	m.do(func() {
		if err == nil && !c.isUnmounted() {
			if served && !ended {
				m.begins(c)
			}
			m.set.Put(c.name(), c.connectionMeta, c.file) // not before: the spare would take it for mounted
			m.follow(c)
			return
		}
		err = cmp.Or(err, errUnmounted)
		if !isClosed(c.gone) {
			m.drop(c)
		}
		file.Close()
	})
	if err != nil { // its program lives, and is looked for again, but for that of a volume that was unmounted
		_, unmountErr := m.send(childTime, job{Kind: "unmount", Dirs: []string{c.dir()}, Force: errors.Is(err, errUnmounted)})
		err = errors.Join(err, unmountErr)
	}
	return c, err
}

// take is the errand of a child: it takes a connection that has mounted one of some devices out of
// some processes, and sends it. It passes over a process that cannot be asked now.
func take(j job) (done result, err error) {
	socket, err := packet.New(os.NewFile(otherFD, "link"))
	if err != nil {
		return done, err
	}
	const atOnce = 128 // one that does not answer keeps none of the others waiting
	var sent atomic.Bool
	for some := range slices.Chunk(j.PIDs, atOnce) {
		var group sync.WaitGroup
		for _, pid := range some {
			group.Go(func() {
				found, _ := proc.Ask(pid, func() (taken, error) { return takeFrom(pid, j.Devices) })
				if found.file != nil && !sent.Swap(true) {
					err = socket.Send(sendTime, found, found.file)
				}
			})
		}
		if group.Wait(); sent.Load() {
			break
		}
	}
	return done, err
}

// takeFrom takes the first descriptor of a process that is such a connection; without a file: none
// is. It is a question for Ask.
func takeFrom(pid int, devices []uint64) (none taken, err error) {
	process, err := proc.Open(pid)
	if err != nil {
		return none, err
	}
	defer process.Close()
	names, err := readNames(fmt.Sprintf("/proc/%d/fd", pid))
	for _, name := range names {
		if path, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%s", pid, name)); err != nil || path != "/dev/fuse" {
			continue // all others stay where they are
		}
		number, _ := strconv.Atoi(name)
		fd, err := process.Take(number)
		if err != nil {
			continue
		}
		if device, err := deviceOfConnection(fd); err == nil && slices.Contains(devices, device) {
			return taken{pid, device, os.NewFile(uintptr(fd), "/dev/fuse")}, nil
		}
		unix.Close(fd)
	}
	return none, err
}

// deviceOfConnection is the device of what a connection has mounted (Linux 5.14).
func deviceOfConnection(fd int) (uint64, error) {
	// A /dev/fuse that was just opened has no connection, and cannot be cloned. Mounting it here
	// would make the connection, and the process that opened it could not mount it any more
	// (ENOTCONN).
	clone, err := devfuse.Clone(fd)
	if err != nil {
		return 0, err
	}
	unix.Close(clone)
	again, err := mountAgain(fd)
	if err != nil {
		return 0, err
	}
	defer unix.Close(again)
	return deviceAt(again)
}

// bury is the errand of a child: it removes a mount whose program is dead, as the kernel says. A
// program that lives may not answer.
func bury(j job) (result, error) {
	return result{}, inContainer(j.PID, func() error {
		fd, err := openNoLinks(j.Path)
		if err != nil {
			return again(err)
		}
		defer unix.Close(fd)
		// Whatever else is there by now, such as the stand-in, is not asked: it may have this child
		// wait.
		if device, err := deviceAt(fd); err != nil {
			return err
		} else if device != j.Device {
			return again(mount.ErrGone)
		}
		var stat unix.Statfs_t
		err = unix.Fstatfs(fd, &stat)
		if err != unix.ENOTCONN && err != unix.ECONNABORTED {
			return fmt.Errorf("no process is known that serves what is mounted on %s, and it is not dead", j.Path)
		}
		return again(mount.Detach(j.Path, 1, j.Device))
	})
}
