package mounter

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/internal/proc"
	"example.com/pod-info-fuse/podfuse/packet"
	"example.com/pod-info-fuse/podfuse/wire"
	"example.com/pod-info-fuse/survive/volume"
)

// A program is dead when no process has its connection open any more but the mounter. Which do, only
// kcmp(2) tells: a number of a descriptor means nothing, and the process that asked for it has
// passed it on, or has forked. It must be certain, because the pair reads a dead connection:
// requests that it takes from a program that lives would never be answered.
//
// A descriptor on its way through a socket is open in no process. So a connection that nobody
// has yet, and that has not answered, has time until grace.

var ( // a test sets them
	// grace is how long after it was sent a descriptor may be on its way.
	grace = 5 * time.Second
	// lookAgain is when it is checked again that a process which lives has it.
	lookAgain = time.Second
)

// waitDead watches a connection until its program is dead.
func (m *mounter) waitDead(c *connection) {
	pauses := 5 * time.Millisecond
	for !isClosed(c.gone) {
		pid, fd, found := c.holder()
		if found {
			m.do(func() { c.program = pid })
			c.waitHolder(pid, fd)
			continue
		}
		var served bool
		m.do(func() { served = c.Served })
		if served || time.Since(c.Sent) > grace || isClosed(c.hurry) {
			// Once more: it may have arrived, and been answered, since.
			if _, _, found := c.holder(); !found {
				m.died(c)
				return
			}
			continue
		}
		select {
		case <-time.After(pauses):
		case <-c.gone:
		case <-c.hurry:
		}
		pauses = min(2*pauses, 200*time.Millisecond)
	}
}

// died deals with a connection whose program is dead.
func (m *mounter) died(c *connection) {
	pause("died")
	// First, or a program that is started again in there is held by its own mount.
	m.detachOwn(c)
	kept := false
	m.do(func() {
		if isClosed(c.gone) {
			kept = true
			return
		}
		if kept = c.Served && m.wanted(c); !kept {
			return
		}
		c.Dead, c.Since = true, time.Now()
		m.remember(c.Volume, 0)
		m.set.Note(c.name(), c.connectionMeta)
		client := m.client(c.Volume)
		client.dead, client.living = append(client.dead, c), nil
		m.tellDead(c)
	})
	pause("told")
	if kept {
		return
	}
	m.abort([]*connection{c})
	m.do(func() {
		if !isClosed(c.gone) {
			m.tell(wire.Event{Kind: wire.Died, Volume: c.Volume, Generation: c.Generation, Since: time.Now()})
			m.drop(c)
		}
		if !m.wanted(c) {
			m.forgetHistory(c.Volume)
		}
	})
}

// wanted tells whether the volume of a connection is still mounted, or may be again.
func (m *mounter) wanted(c *connection) bool {
	_, clientErr := m.Clients().Get(c.Volume)
	_, serverErr := m.ServerVolumes().Get(c.Server)
	return !errors.Is(clientErr, fs.ErrNotExist) || !errors.Is(serverErr, fs.ErrNotExist)
}

// spent closes the connection of a dead program.
func (m *mounter) spent(id volume.ID, generation uint64) error {
	if client := m.volumes[id]; client != nil {
		for _, c := range client.dead {
			if c.Generation == generation {
				switch {
				case c.Unmounted:
					m.drop(c)
				case !c.abandoned: // it may be told again and again
					c.abandoned = true
					go m.abandon(c)
				}
				return nil
			}
		}
		if client.living != nil && client.living.Generation == generation {
			return errors.New("its program lives")
		}
	}
	return nil // told twice
}

// provoke makes a request on the connection of a dead program, and another one if that is asked for
// meanwhile. Its answer is nobody's business here.
func (m *mounter) provoke(id volume.ID, generation uint64) {
	client := m.volumes[id]
	if client == nil {
		return
	}
	for _, c := range client.dead {
		if c.Generation != generation {
			continue
		}
		if c.provoked++; c.provoked == 1 {
			go m.provokeAll(c)
		}
	}
}

func (m *mounter) provokeAll(c *connection) {
	for again := true; again; {
		if file, err := m.device(c); err == nil {
			child, err := m.dispatch(job{Kind: "provoke", Dir: c.dir()}, file)
			file.Close()
			if err == nil {
				_, _ = child.wait(childTime)
				<-child.ended
			}
		}
		m.do(func() {
			c.provoked = min(c.provoked-1, 1)
			again = c.provoked > 0
		})
	}
}

// waitHolder returns when a process has ended that has the connection open, or has closed it.
func (c *connection) waitHolder(pid, fd int) {
	number, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return
	}
	p := &process{pid: pid, fd: pidFile(number)}
	defer p.close()
	raw, err := p.fd.SyscallConn()
	if err != nil {
		time.Sleep(lookAgain)
		return
	}
	for c.isOpen(pid, fd) && !isClosed(c.gone) {
		_ = p.fd.SetReadDeadline(time.Now().Add(lookAgain))
		ended := false
		err := raw.Read(func(number uintptr) bool {
			poll := []unix.PollFd{{Fd: int32(number), Events: unix.POLLIN}}
			n, _ := unix.Poll(poll, 0)
			ended = n > 0
			return ended
		})
		if ended {
			return
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			time.Sleep(lookAgain / 10) // no descriptor to wait for: before Linux 5.10?
		}
	}
}

// isOpen tells whether a descriptor of a process is the connection.
func (c *connection) isOpen(pid, fd int) bool {
	ours, err := packet.Number(c.file)
	if err != nil {
		return false
	}
	const kcmpFile = 0 // include/uapi/linux/kcmp.h
	different, _, errno := unix.Syscall6(unix.SYS_KCMP, uintptr(os.Getpid()), uintptr(pid), kcmpFile, uintptr(ours), uintptr(fd), 0)
	runtime.KeepAlive(c.file)
	return errno == 0 && different == 0
}

// holder finds a process that has the connection open, and its descriptor. That there is none is
// certain: no process has ended while it looked, which could have forked before. Only on a node
// where processes end all the time, it looks often instead.
func (c *connection) holder() (pid, fd int, found bool) {
	const tries = 20
	zombies := map[int]string{}
	for range tries {
		pid, fd, complete := c.look(zombies)
		if pid != 0 {
			return pid, fd, true
		} else if complete {
			return 0, 0, false
		}
		time.Sleep(time.Millisecond)
	}
	return 0, 0, false
}

// look looks once. complete says that it has seen all. zombies are those that had ended when it
// began, by when they had started.
func (c *connection) look(zombies map[int]string) (pid, fd int, complete bool) {
	all, err := os.Open("/proc")
	if err != nil {
		return 0, 0, false
	}
	defer all.Close()
	complete = true
	for {
		names, _ := all.Readdirnames(512)
		if len(names) == 0 {
			return 0, 0, complete
		}
		for _, name := range names {
			pid, err := strconv.Atoi(name)
			if err != nil || pid == os.Getpid() {
				continue
			}
			fd := -1
			related, err := c.related(pid)
			if err == nil && related && !c.isPeer(pid) {
				fd, err = c.openIn(pid)
			}
			if fd >= 0 && !isOurs(pid) {
				return pid, fd, true
			}
			if isEnded(err) {
				start := startOf(pid)
				complete = complete && start != "" && zombies[pid] == start
				zombies[pid] = start
			}
		}
	}
}

func isEnded(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) }

// related tells whether a process may have got the descriptor: by a fork, or by a socket that
// its container shares.
func (c *connection) related(pid int) (bool, error) {
	for _, namespace := range []struct{ name, wanted string }{{"mnt", c.Peer.Mounts}, {"pid", c.Peer.PIDs}} {
		link, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/%s", pid, namespace.name))
		if link == namespace.wanted {
			return true, nil
		} else if isEnded(err) && len(threadsOf(pid)) > 1 {
			return true, nil // only its first thread has ended
		} else if err != nil {
			return false, err
		}
	}
	if c.Peer.Cgroups == "" {
		return false, nil // one of the host's, or of all
	}
	cgroups, err := readSome(fmt.Sprintf("/proc/%d/cgroup", pid))
	return digest(string(cgroups)) == c.Peer.Cgroups, err
}

func threadsOf(pid int) []string {
	threads, _ := readNames(fmt.Sprintf("/proc/%d/task", pid))
	return threads
}

// isPeer tells whether a process is the one that asked, and has executed nothing else since: the
// launcher and the proxy do not serve.
func (c *connection) isPeer(pid int) bool {
	return pid == c.Peer.PID && startOf(pid) == c.Peer.Start && exe(pid) == c.Peer.Exe
}

// isOurs tells whether a process is a child of this one.
func isOurs(pid int) bool {
	status, err := proc.StatusIn(fmt.Sprintf("/proc/%d", pid))
	return err == nil && status["PPid"] == strconv.Itoa(os.Getpid())
}

// openIn finds the descriptor of a process that is the connection, -1 for none.
func (c *connection) openIn(pid int) (fd int, err error) {
	threads := []string{strconv.Itoa(pid)}
	names, err := readNames(fmt.Sprintf("/proc/%d/fd", pid))
	if isEnded(err) {
		threads = threadsOf(pid)
	}
	for _, thread := range threads {
		number, _ := strconv.Atoi(thread)
		if number != pid {
			names, _ = readNames(fmt.Sprintf("/proc/%d/fd", number))
		}
		for _, name := range names {
			if fd, err := strconv.Atoi(name); err == nil && c.isOpen(number, fd) {
				return fd, nil
			}
		}
	}
	return -1, err
}

func readNames(path string) ([]string, error) {
	dir, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	return dir.Readdirnames(-1)
}

// exe is the digest of the path of what a process executes.
func exe(pid int) string {
	link, _ := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
	return digest(strings.TrimSuffix(link, " (deleted)"))
}

// startOf is when a process began (man 5 proc_pid_stat, starttime).
func startOf(pid int) string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ""
	}
	_, rest, _ := strings.Cut(string(text[strings.LastIndexByte(string(text), ')')+1:]), " ")
	fields := strings.Fields(rest)
	const startTime = 22 - 3 // the first one is the third
	if len(fields) <= startTime {
		return ""
	}
	return fields[startTime]
}
