package mounter

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/internal/devfuse"
	"example.com/pod-info-fuse/internal/mount"
	"example.com/pod-info-fuse/internal/packet"
	"example.com/pod-info-fuse/internal/proc"
	"example.com/pod-info-fuse/survive/volume"
)

// When the mounter and its spare have died together, the vault is lost, and with it the descriptor
// of every connection. The programs live on, and so do their mounts in containers. The next mounter
// reads from files what the one before knew (table.save). Until it has the descriptor again, a
// connection is lost. A child takes it out of the program, by pidfd_getfd(2).
//
// A descriptor that a pod has chosen proves nothing. The kernel tells which connection it is of: it
// is mounted once more, and has to show the device of the program's mount. From then on, the
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

// loadLost makes entries of the connections that are lost, and reports whether it knows all.
func (m *recovery) loadLost() bool {
	entries, err := os.ReadDir(m.Connections())
	var all []connectionMeta
	for _, entry := range entries {
		var meta connectionMeta
		path := filepath.Join(m.Connections(), entry.Name())
		text, readErr := os.ReadFile(path)
		if proc.IsShort(readErr) {
			err = readErr
		} else if readErr != nil || json.Unmarshal(text, &meta) != nil || meta.dir() != entry.Name() {
			_ = os.Remove(path) // a mounter was killed while it wrote
		} else if _, kept := m.set.Get(connectionName(meta.Volume, meta.Generation), nil); !kept {
			all = append(all, meta)
		}
	}
	if err != nil {
		m.log("find the programs that a mounter before knew: %v; it is tried again", err)
		return false
	}
	for _, meta := range all {
		served := meta.Served && !meta.Dead
		meta.Served, meta.Dead = false, false // the pair is told nothing of a lost one
		m.addConnection(meta, nil).served = served
	}
	return true
}

// recoverAll recovers the programs of all volumes, and tries again what fails.
func (m *recovery) recoverAll(loaded bool) {
	for pause := recoverPause; ; pause = min(2*pause, mostRecoverPause) {
		lost := map[string][]volume.ID{} // by pod: each has one turn, and what hangs keeps its own volumes waiting
		m.do(func() {
			loaded = loaded || m.loadLost()
			for id, client := range m.volumes {
				if all := client.lost(); len(all) > 0 {
					lost[all[0].Pod] = append(lost[all[0].Pod], id)
				}
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
		if loaded && len(lost) == 0 {
			return
		}
		time.Sleep(pause)
	}
}

// recover finds the programs of a volume that are lost. It returns an error, which it logs a few
// times.
func (m *recovery) recover(id volume.ID) error {
	lost := func() (all []*connection) {
		m.do(func() {
			if client := m.volumes[id]; client != nil {
				all = client.lost()
			}
		})
		return all
	}
	if len(lost()) == 0 {
		return nil
	}
	until := time.Now().Add(orderTime)
	release, err := m.lockVolume(id, until)
	if err == nil {
		all := lost()
		for _, c := range all {
			err = errors.Join(err, m.recoverOne(c, until))
		}
		if len(all) > 0 {
			err = errors.Join(err, m.renewIn(cgroup{all[0].Pod, all[0].Peer.Group}, until))
		}
		release()
	}
	if err != nil {
		err = fmt.Errorf("find the program that serves it: %w; it is tried again", err)
		m.do(func() { m.logFailure(id, "recovery", err) })
	}
	return err
}

// recoverOne takes the connection of a program that lives, or removes the mounts of one that is
// dead. The caller has locked the volume.
func (m *recovery) recoverOne(c *connection, until time.Time) error {
	// Then the kernel has given its device's number to another file system.
	hasEnded := m.find(func(other *connection) bool { return other.file != nil && other.Device == c.Device }) != nil
	others := false
	m.do(func() { others = m.client(c.Volume).living != nil })
	if !hasEnded && !others && !c.Left && c.Device != 0 {
		if taken, err := m.takeBack(c); taken || err != nil {
			return err
		}
	}
	if !hasEnded {
		if err := errors.Join(m.detachOwn(c), m.uncoverAll("bury", c, until)); err != nil {
			return err
		}
	}
	m.do(func() {
		if !isClosed(c.gone) {
			m.drop(c)
		}
	})
	return nil
}

// takeBack takes a connection that is lost out of a process, if one has it. A child does, as a
// process may exchange the descriptor for one that takes for ever to close.
func (m *recovery) takeBack(c *connection) (taken bool, err error) {
	pids, err := c.candidates()
	if err != nil {
		return false, err
	}
	pids = slices.DeleteFunc(pids, func(pid int) bool { is, err := c.related(pid); return err != nil || !is })
	ours, theirs, err := packet.Pair()
	if err != nil {
		return false, err
	}
	defer ours.Close()
	defer theirs.Close()
	socket, err := packet.New(ours)
	if err != nil {
		return false, err
	}
	defer socket.Close()
	if err := m.enter(c.Pod, mostHanging, childTime, job{Kind: "take", PIDs: pids, Device: c.Device}, theirs); err != nil {
		return false, err
	}
	_, files, err := socket.Receive(time.Now())
	if err != nil || len(files) != 1 {
		packet.Close(files)
		return false, nil // it has sent nothing
	}
	return true, m.resume(c, files[0])
}

// resume mounts what a connection that was lost serves in the vault, where it is mounted for
// containers to come.
func (m *recovery) resume(c *connection, file *os.File) (err error) {
	m.do(func() {
		switch client := m.client(c.Volume); {
		case c.isUnmounted():
			err = errUnmounted
			m.tidy(c.Volume)
		case client.living != nil: // the look took longer than another program waits for its end
			err = errBusy
		default:
			client.remove(c)
			client.living, c.file = c, file
		}
	})
	if err != nil {
		file.Close()
		return err
	}
	_, err = m.mount(c)
	pause("recover")
	ended := m.ended(c)
	m.do(func() {
		if err == nil && !c.isUnmounted() {
			if c.served && !ended {
				m.begins(c)
			}
			m.keepConnection(c) // not before: the spare would take it for mounted
			m.follow(c)
			return
		}
		if c.isUnmounted() {
			err = errUnmounted
		} else {
			client := m.client(c.Volume)
			client.living, client.former = nil, append(client.former, c)
		}
		c.file = nil
		file.Close()
	})
	if err != nil { // its program lives, and is looked for again, but for that of a volume that was unmounted
		_, unmountErr := m.send(childTime, job{Kind: "unmount", Dirs: []string{c.dir()}, Force: errors.Is(err, errUnmounted)})
		err = errors.Join(err, unmountErr)
	}
	return err
}

// take is the errand of a child: it takes the connection that has mounted a device out of one of
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
				file, _ := proc.Ask(pid, func() (*os.File, error) { return takeFrom(pid, j.Device) })
				if file != nil && !sent.Swap(true) {
					err = socket.Send(sendTime, struct{}{}, file)
				}
			})
		}
		if group.Wait(); sent.Load() {
			break
		}
	}
	return done, err
}

// takeFrom takes the first descriptor of a process that is such a connection, nil if none is. It is
// a question for Ask.
func takeFrom(pid int, device uint64) (*os.File, error) {
	process, err := proc.Open(pid)
	if err != nil {
		return nil, err
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
		if is, err := deviceOfConnection(fd); err == nil && is == device {
			return os.NewFile(uintptr(fd), "/dev/fuse"), nil
		}
		unix.Close(fd)
	}
	return nil, err
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

// timeOf is how long a child may take for an errand.
func timeOf(errand string) time.Duration {
	if errand == "bury" {
		return buryTime
	}
	return childTime
}

// isDead returns an error unless the program of a mount is dead, as the kernel says. A program that
// lives may not answer.
func isDead(path string, device uint64) error {
	point, err := openInContainer(path)
	if err != nil {
		return err
	}
	defer point.Close()
	// Whatever else is there by now, such as the stand-in, is not asked: it may have this child
	// wait.
	if point.Device() != device {
		return mount.ErrGone
	}
	var stat unix.Statfs_t
	if err := unix.Fstatfs(point.Descriptor(), &stat); err != unix.ENOTCONN && err != unix.ECONNABORTED {
		return fmt.Errorf("no process is known that serves what is mounted on %s, and it is not dead", path)
	}
	return nil
}
