package mounter

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/internal/proc"
	"example.com/pod-info-fuse/podfuse"
	"example.com/pod-info-fuse/podfuse/wire"
	"example.com/pod-info-fuse/survive/volume"
)

// A program is dead when no process of its pod has its connection open any more. Which do, only
// kcmp(2) tells: a number of a descriptor means nothing, and the process that asked for it has
// passed it on, and closed it, or has forked. The pair reads the connection of a dead program, and
// requests that it took from one that lives would never be answered. A pod that hides the
// descriptor does that to its own volume only.
//
// A descriptor on its way through a socket is open in no process. So a connection that nobody
// has yet, and that has neither answered nor been unmounted, has time until grace.
//
// A process that executes a program cannot be asked what it has open, and nor can some others
// (package proc, Ask). Nothing is believed of it: it is looked again. But it could stay so, while
// the next program of its pod waits. So after hiddenTime it has nothing open.
//
// One that was killed may never end: a thread of it may wait in the kernel for an answer of its own
// program. It answers nobody any more, and does not count.

var ( // a test sets them
	// grace is how long after it was sent a descriptor may be on its way.
	grace = 5 * time.Second
	// firstCheck is the pause before the first check that a process which lives still has it: a
	// launcher soon closes what its program has. Each pause is twice as long as the one before.
	firstCheck = firstPause
	// lookAgain is the longest pause between two such checks.
	lookAgain = time.Second
)

const (
	// firstPause is that between two looks for what is about to happen. The next ones are longer.
	firstPause = 2 * time.Millisecond
	// hiddenTime is how long a process of the pod may be one that cannot be asked.
	hiddenTime = 5 * time.Second
	// startTime is how long nobody looks for who has just got a descriptor: readers wait for it,
	// and a look at all processes takes the time of a processor. If it dies meanwhile, the next
	// program asks, which ends the wait.
	startTime = 200 * time.Millisecond
	// killedTime is between two looks whether a process was killed: most end meanwhile.
	killedTime = 20 * time.Millisecond
)

// waitDead watches a connection until its program is dead. sent is when the program was given it.
func (m *programs) waitDead(c *connection, sent time.Time) {
	select {
	case <-time.After(min(startTime, startTime-time.Since(sent))): // the clock may have been set back
	case <-c.gone:
	case <-c.hurry:
	}
	pauses, checks := firstPause, firstCheck
	var hides time.Time // since when some process cannot be asked, or another one; zero: none
	missed := false     // by the last look
	for !isClosed(c.gone) {
		// First: a descriptor that arrives after the look is of a program that answers after it.
		var had bool
		m.do(func() { had, sent = c.Served || c.Left, c.Sent })
		hurry := c.hurry
		if isClosed(hurry) {
			had, hurry = true, nil
		}
		had = had || time.Since(sent) > grace
		began := time.Now()
		seen, err := c.look()
		pauses = max(pauses, 2*time.Since(began)) // a pod that makes looks slow gets few of them
		switch {
		case err != nil: // it cannot look now
		case seen.found:
			m.do(func() { c.program, c.doubted = seen.pid, false })
			checks = c.waitHolder(seen, checks)
			m.do(func() { c.doubted = true })
			pauses, hides, missed = firstPause, time.Time{}, false
			continue
		case seen.hidden > 0 && hides.IsZero():
			hides = time.Now()
		case had && (seen.hidden == 0 || time.Since(hides) > hiddenTime):
			if missed {
				m.died(c)
				return
			}
			missed = true // a daemon forks twice, and has it in a process that began during the look
			continue
		}
		select {
		case <-time.After(pauses):
		case <-c.gone:
		case <-hurry:
		}
		pauses = min(2*pauses, 200*time.Millisecond)
	}
}

// mostFormer is how many connections of programs that are dead, or have unmounted the volume, are
// kept for it: twice as many as a pair keeps that has not been taken over (package standin). More
// than that, and the first one is closed here, or a pod that goes on using what it has unmounted
// could use up the mounter's descriptors. When that program ends, who has a file of it open gets
// ECONNABORTED; at once, where it could not be unmounted.
const mostFormer = 16

// died deals with a connection whose program is dead.
func (m *programs) died(c *connection) {
	pause("died")
	// First, or a program that is started again in there is held by its own mount.
	own := m.detachOwn(c)
	kept, resends, short := m.keepDead(c)
	for short { // of descriptors or memory
		time.Sleep(lookAgain)
		kept, resends, short = m.keepDead(c)
	}
	pause("told")
	if kept {
		m.detachOwnAgain(c, own)
		return
	}
	if !resends {
		defer m.uncoverDead(c)()
	}
	m.abort([]*connection{c})
	m.detachOwnAgain(c, own) // before it is dropped: no other program mounts there meanwhile
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

// keepDead gives the pair the connection of a dead program, if somebody may use it. resends is
// false where the pair could not answer what the program had read, and short tells that there is
// nothing to do it with now.
func (m *programs) keepDead(c *connection) (kept, resends, short bool) {
	resends = true
	m.do(func() {
		if isClosed(c.gone) {
			kept = true
			return
		}
		if kept = c.Served && m.wanted(c); !kept {
			return
		}
		err := m.separate(c)
		if short = proc.IsShort(err); short {
			return
		}
		if !c.Left { // or its volume has been without a program since, which was remembered
			c.Since = time.Now()
			m.remember(c.Volume, 0)
		}
		if err != nil {
			kept, resends, c.abandoned = false, false, true
			m.tell(c.diedEvent())
			return
		}
		c.Dead = true
		m.keepConnection(c)
		m.isFormer(c)
	})
	return kept, resends, short
}

// uncoverDead is for Linux before 6.9, where nobody can answer what a dead program had read: its
// connection is aborted. Before that, its mounts are removed in all containers, so that whoever
// comes then waits for the next program. No other program's mount is put on top meanwhile, until
// release is called.
func (m *programs) uncoverDead(c *connection) (release func()) {
	until := time.Now().Add(orderTime)
	release, err := m.lockVolume(c.Volume, until)
	if err != nil {
		release = func() {}
	}
	if err = errors.Join(err, m.uncoverAll("uncover", c, until)); err != nil {
		m.log("volume %s: remove what a dead program has served: %v", c.Volume, err)
	}
	return release
}

// wanted tells whether the volume of a connection is still mounted, or may be again.
func (c Config) wanted(of *connection) bool {
	_, clientErr := c.Clients().Get(of.Volume)
	_, serverErr := c.ServerVolumes().Get(of.Server)
	return !errors.Is(clientErr, fs.ErrNotExist) || !errors.Is(serverErr, fs.ErrNotExist)
}

// spent closes the connection of a dead program.
func (m *programs) spent(id volume.ID, generation uint64) error {
	if client := m.volumes[id]; client != nil {
		for _, c := range client.former {
			if c.Dead && c.Generation == generation {
				if c.Unmounted {
					m.drop(c)
				} else { // it may be told again and again
					m.giveUp([]*connection{c}, 0)
				}
				return nil
			}
		}
		if client.living != nil && client.living.Generation == generation && !client.living.abandoned {
			return errors.New("its program lives")
		}
	}
	return nil // told twice
}

// waitHolder returns when a process has ended that has the connection open, or has closed it, or
// cannot be asked. checks is the pause before the first check, and next is the one for the next
// holder. It does not begin anew, or a pod that passes the connection on would be checked all the
// time.
func (c *connection) waitHolder(seen sight, checks time.Duration) (next time.Duration) {
	p, err := proc.Open(seen.pid)
	if err != nil {
		return checks
	}
	defer p.Close()
	raw, err := p.File.SyscallConn()
	if err != nil {
		time.Sleep(lookAgain)
		return checks
	}
	for c.isStill(seen) && !isClosed(c.gone) {
		_ = p.File.SetReadDeadline(time.Now().Add(checks))
		checks = min(2*checks, lookAgain)
		ended := false
		err := raw.Read(func(number uintptr) bool {
			ended, _ = proc.Polled(int(number), unix.POLLIN, 0)
			return ended
		})
		if ended {
			return checks
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			time.Sleep(lookAgain / 10) // no descriptor to wait for: before Linux 5.10?
		}
	}
	return checks
}

// lives waits until it is known whether the program of an order lives, and returns an error if it
// does not. A look at the processes may take seconds, and meanwhile its death is not known. Whoever
// was shown the mount of one that is dead waits on that, and has used up what the kernel does for
// him: when the next program serves, he gets an error.
//
// As long as nobody was found who has the connection, which is so when the program has just begun,
// it lives unless another one wants to serve.
func (m *mounter) lives(o *order, until time.Time) error {
	for pauses := firstPause; ; pauses = min(2*pauses, killedTime) {
		c, err := m.living(o)
		if err != nil {
			return err
		}
		program, doubted := 0, false
		m.do(func() { program, doubted = c.program, c.doubted || c.program == 0 && isClosed(c.hurry) })
		if !doubted && (program == 0 || isAlive(program)) {
			return nil
		}
		if time.Now().After(until) {
			return errDoubted
		}
		select {
		case <-time.After(pauses):
		case <-c.over:
		}
	}
}

var errDoubted = errors.New("it is not known yet whether the program lives; it is tried again")

// isAlive tells whether a process has neither ended nor been killed.
func isAlive(pid int) bool {
	p, err := proc.Open(pid)
	if err != nil {
		return !isEnded(err)
	}
	defer p.Close()
	return p.Alive() == nil && !proc.IsEnding(pid)
}

// isStill tells whether a process that was found has the connection open, and counts.
func (c *connection) isStill(seen sight) bool {
	is, err := proc.Ask(seen.pid, func() (bool, error) { return c.isOpen(seen.pid, seen.fd), nil })
	return err == nil && is && !isKilled(seen.pid)
}

// isOpen tells whether a descriptor of a process is the connection. It is a question for Ask.
func (c *connection) isOpen(pid, fd int) bool {
	raw, err := c.file.SyscallConn()
	if err != nil {
		return false
	}
	is := false
	_ = raw.Control(func(ours uintptr) { // by then it may be closed, and is not meanwhile
		const kcmpFile = 0 // include/uapi/linux/kcmp.h
		different, _, errno := unix.Syscall6(unix.SYS_KCMP, uintptr(os.Getpid()), uintptr(pid), kcmpFile, ours, uintptr(fd), 0)
		is = errno == 0 && different == 0
	})
	return is
}

// sight is what a look at processes has seen.
type sight struct {
	found   bool
	pid, fd int // of a process that has the connection open
	hidden  int // how many cannot be asked, where none was found
}

// mostHidden is how many processes of a pod are asked in vain in one look: each may take
// proc.AskTime, and leave a thread.
const mostHidden = 16

// look looks at the processes that may have the connection. One that was killed does not count. A
// program that hands the connection on during two looks can be taken for dead, to the harm of its
// own volume only.
func (c *connection) look() (seen sight, err error) {
	defer looks.Take(c.Pod)()
	if isClosed(c.gone) {
		return sight{}, errUnmounted
	}
	pids, err := c.candidates()
	if err != nil {
		return sight{}, err
	}
	left := mostDescriptorsOfPod
	for _, pid := range pids {
		if pid == os.Getpid() {
			continue
		}
		fd := -1
		is, err := c.related(pid)
		if err == nil && is {
			fd, err = c.find(pid, &left)
		}
		switch {
		case fd >= 0 && !isKilled(pid):
			return sight{found: true, pid: pid, fd: fd}, nil
		case proc.IsShort(err):
			return sight{}, err
		case proc.IsUntold(err):
			if seen.hidden++; seen.hidden == mostHidden {
				return seen, nil
			}
		}
	}
	return seen, nil
}

// candidates are the processes among which the program is: those of its pod, or all.
func (c *connection) candidates() ([]int, error) {
	if c.Peer.Group != "" {
		own, _, err := cgroup{dir: c.Peer.Group}.processes()
		return own, err
	}
	return proc.PIDs()
}

func isEnded(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) }

// related tells whether a process may have got the descriptor. Those of other pods are not even
// asked: what they execute is nobody else's trouble.
func (c *connection) related(pid int) (bool, error) {
	if c.Peer.Group != "" {
		return true, nil
	}
	// The kubelet gives pods no cgroup of their own: by a fork, or by a socket that its container
	// shares.
	theirs, err := proc.Link(pid, "ns/mnt")
	if proc.IsUntold(err) && !c.mayShare(pid) {
		return false, nil
	}
	return theirs == c.Peer.Mounts, err
}

// mayShare tells of a process that cannot be asked whether it has the server volume, as the one
// that asked has.
func (c *connection) mayShare(pid int) bool {
	text, err := proc.Read(fmt.Sprintf("/proc/%d/mountinfo", pid), nil, wire.MostMounts)
	return err == nil && bytes.Contains(text, []byte("/"+c.Server.String()+" "))
}

// podsOf are the UIDs of the pod that a process's cgroups name, one for each hierarchy.
func podsOf(pid int) (uids []string, err error) {
	text, err := proc.Read(fmt.Sprintf("/proc/%d/cgroup", pid), make([]byte, 0, 1<<10), podfuse.MostCgroup)
	return podfuse.Pods(text), err
}

// isKilled tells whether a process was killed and has not ended, at two looks in a row.
func isKilled(pid int) bool {
	if !proc.IsEnding(pid) {
		return false
	}
	time.Sleep(killedTime)
	return proc.IsEnding(pid)
}

const (
	// mostDescriptors of a process are looked at, from the lowest number on: a program has its
	// connection from its beginning.
	mostDescriptors = 4 << 10
	// mostDescriptorsOfPod are looked at before none of its other processes is seen to serve. A pod
	// could otherwise keep a processor busy.
	mostDescriptorsOfPod = 64 << 10
)

// find finds the descriptor of a process that is the connection, -1 for none. A process whose first
// thread has ended has none. left is how many descriptors of the pod may still be looked at.
func (c *connection) find(pid int, left *int) (fd int, err error) {
	if *left <= 0 {
		return -1, nil
	}
	dir, err := os.Open(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		return -1, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(min(mostDescriptors, *left))
	if err == io.EOF {
		return -1, nil
	} else if err != nil {
		return -1, err
	}
	*left -= len(names)
	fd, err = proc.Ask(pid, func() (int, error) { return c.openAmong(pid, names), nil })
	if err != nil {
		return -1, err
	}
	return fd, nil
}

// openAmong is the first of some descriptors of a process that is the connection, -1 for none. It
// is a question for Ask.
func (c *connection) openAmong(pid int, names []string) int {
	for _, name := range names {
		if fd, err := strconv.Atoi(name); err == nil && c.isOpen(pid, fd) {
			return fd
		}
	}
	return -1
}

func readNames(path string) ([]string, error) {
	dir, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	return dir.Readdirnames(-1)
}

// startOf is when a process began (man 5 proc_pid_stat, starttime).
func startOf(pid int) (string, error) {
	text, err := proc.Ask(pid, func() ([]byte, error) { return os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)) })
	if err != nil {
		return "", err
	}
	_, rest, _ := strings.Cut(string(text[strings.LastIndexByte(string(text), ')')+1:]), " ")
	fields := strings.Fields(rest)
	const startTime = 22 - 3 // the first one is the third
	if len(fields) <= startTime {
		return "", fmt.Errorf("/proc/%d/stat tells no time", pid)
	}
	return fields[startTime], nil
}
