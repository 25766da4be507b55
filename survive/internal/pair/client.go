package pair

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/internal/confine"
	"example.com/pod-info-fuse/internal/packet"
	"example.com/pod-info-fuse/internal/proc"
)

// Place says where root finds a pair.
type Place struct {
	Socket string // the path of the control socket
	Lock   string // the path of daemon.lock
	User   confine.User
}

// errSilent says that the active process does not answer.
var errSilent = errors.New("the active process does not answer")

// Refusal is an answer that says no, or what is wrong with it. So somebody lives.
type Refusal string

func (r Refusal) Error() string { return string(r) }

// Start starts the pair on a connection, with arguments for its command, and returns
// when its first process serves. settle is called with that process before it does,
// to move it to where it shall stay; its error ends the process. The process starts its
// standby itself.
func (at Place) Start(args []string, r Resources, log Logger, settle func(pid int) error) error {
	ours, theirs, err := linkPair(log)
	if err != nil {
		return err
	}
	first := newChild(ours, nil)
	defer first.end()
	process, err := at.start(args, r, theirs, func(process *os.Process) error {
		return first.introduce(func() error { return settle(process.Pid) })
	})
	if err != nil {
		return fmt.Errorf("start the daemon: %w", err)
	}
	// It outlives this process, and init will reap it.
	return process.Release()
}

// introduce speaks as an active process that leaves.
func (c *child) introduce(settle func() error) error {
	select {
	case m, open := <-c.inbox():
		if !open {
			return errors.New("it died before it was ready")
		}
		if m.Kind != ready {
			return errors.New(m.Problem)
		}
	case <-c.late():
		return fmt.Errorf("it was not ready within %v", startTime)
	}
	if err := settle(); err != nil {
		return err
	}
	var history History
	c.link.send(message{Kind: standBy, History: &history})
	c.link.send(message{Kind: takeOver})
	if !c.await(serving, startTime) {
		return errors.New("it was ready, but did not serve")
	}
	return nil
}

// Ask asks the active process for its report, and waits for it until the limit. The error
// is a [Refusal] where there is an answer, and no report in it.
func (at Place) Ask(limit time.Duration) (*Report, error) {
	deadline := time.Now().Add(limit)
	for tries := 20; ; tries-- {
		answer, err := at.say(commandStatus, deadline)
		if tries > 0 && packet.HasEnded(err) {
			time.Sleep(5 * time.Millisecond)
			continue // another process is active now
		}
		if err == nil && answer.Report == nil {
			err = Refusal("it gives no report")
		}
		return answer.Report, err
	}
}

// Stop asks the pair to end.
func (at Place) Stop() error {
	_, err := at.say(commandStop, time.Now().Add(2*time.Second))
	return err
}

// say sends a single command, and returns the reply.
func (at Place) say(what string, deadline time.Time) (reply, error) {
	conn, err := at.dial(deadline)
	if err != nil {
		return reply{}, err
	}
	defer conn.End()
	return conn.exchange(command{Command: what})
}

// Successor describes the process of this binary that shall serve in the place of a pair.
type Successor struct {
	Args      []string // of its command
	Version   string
	Resources // Upgrade sets Device, Lock and Control
	// Settle is called with the process before it serves, to move it to where it shall
	// stay. Its error fails the upgrade.
	Settle func(pid int) error
	// Sweep is called when the process serves and the pair before has ended, to end other
	// processes that the pair has left: one may have the lock.
	Sweep func()
}

// Unserved is the error of an upgrade after which nobody may serve: the old process says that
// it has handed over, or says nothing (Silent), and the new one does not serve.
type Unserved struct{ error }

// Silent tells whether the old process says nothing, and so may go on.
func (u Unserved) Silent() bool { return errors.Is(u.error, errSilent) }

// Upgrade lets this binary take over from the process that is active, and serves the node mount
// with this device number. If it returns no error, the new process serves, by what the kernel says
// of it and not by the word of the old one; and left names processes of the old pair that have not
// ended. An error that is not [Unserved] means that the old process goes on, as it says.
func (at Place) Upgrade(mount uint64, next Successor, deadline time.Time) (left, err error) {
	for {
		locks, err := at.Find()
		if err != nil {
			return nil, err
		}
		left, err := at.upgrade(locks, mount, next, deadline)
		if !packet.HasEnded(err) || !at.replaced(locks.Active.PID, deadline) {
			return left, err
		}
	}
}

// replaced waits until another process is active than one that has ended: that died, or was
// handing over.
func (at Place) replaced(pid int, deadline time.Time) bool {
	return within(min(time.Second, time.Until(deadline)), func() bool {
		locks, err := at.Find()
		return err == nil && locks.Active.Held && locks.Active.PID != pid
	})
}

func (at Place) upgrade(locks Locks, mount uint64, next Successor, deadline time.Time) (left, err error) {
	active, err := at.hold(locks.Active.PID)
	if err != nil {
		return nil, err
	}
	if active == nil {
		return nil, errors.New("there is no active process")
	}
	defer active.Close()
	standby, _ := at.hold(locks.Standby.PID) // a wrong PID does no harm: the standby is not needed
	defer standby.Close()
	process, err := at.takeOverFrom(active, mount, next, deadline)
	if err != nil {
		return nil, err
	}
	defer process.Release()
	// A process that has handed over, or refused to, must end now, so that the new one is
	// alone.
	left = endAll(active, standby)
	next.Sweep()
	return left, nil
}

// takeOverFrom starts the successor of an active process, which must let it serve.
func (at Place) takeOverFrom(active *proc.Process, mount uint64, next Successor, deadline time.Time) (*os.Process, error) {
	conn, err := at.dial(deadline)
	if err != nil {
		return nil, err
	}
	defer conn.End()
	if err := at.takeResources(active, mount, &next.Resources); err != nil {
		return nil, err
	}
	defer next.close()
	theirs, ours, err := packet.Pair()
	if err != nil {
		return nil, err
	}
	_, err = conn.exchange(command{Command: commandUpgrade, Version: brief(next.Version)}, theirs)
	theirs.Close()
	if err != nil {
		ours.Close()
		return nil, err
	}
	return at.start(next.Args, next.Resources, ours, func(process *os.Process) error {
		if err := next.Settle(process.Pid); err != nil {
			return err
		}
		// Whether the old process says yes, or has died or hung before its reply, does not matter.
		_, err := conn.exchange(command{Command: commandProceed})
		if errors.As(err, new(Refusal)) {
			return err
		}
		if unserved := at.awaitServing(process, deadline); unserved != nil && packet.HasEnded(err) && at.replaced(active.PID, deadline) {
			return err // its standby serves
		} else if unserved != nil {
			return Unserved{errors.Join(unserved, err)}
		}
		return nil
	})
}

// takeResources takes from the active process the descriptors that only it has, and opens the
// lock. A new control socket in the place of the old one would leave a moment without any.
func (at Place) takeResources(active *proc.Process, mount uint64, r *Resources) (err error) {
	r.Device, err = take(active, deviceFD, func(fd int) error { return checkDevice(fd, mount) })
	if err != nil {
		return err
	}
	control, err := take(active, controlFD, func(fd int) error { return checkListener(fd, at.Socket) })
	if err == nil {
		r.Control = os.NewFile(uintptr(control), at.Socket)
		r.Lock, err = at.OpenLock()
	}
	if err != nil {
		r.close()
	}
	return err
}

// close closes what was taken, and the lock.
func (r *Resources) close() {
	unix.Close(r.Device)
	r.Control.Close()
	r.Lock.Close()
}

// awaitServing waits until a process that we have started has a lock and answers: it answers only
// while it serves, and has the standby's lock where another one keeps the active one's.
func (at Place) awaitServing(process *os.Process, deadline time.Time) error {
	started, err := at.hold(process.Pid)
	if err != nil {
		return err
	}
	defer started.Close()
	for {
		locks, err := at.Find()
		switch {
		case err != nil:
			return err
		case started == nil || started.Ended(time.Millisecond):
			return fmt.Errorf("process %d was to serve, and has ended", process.Pid)
		case locks.name(process.Pid) && at.isAnsweredBy(process.Pid):
			return nil
		case time.Now().After(deadline):
			return fmt.Errorf("process %d was to serve, and does not", process.Pid)
		}
	}
}

// isAnsweredBy asks for a report, and tells whether this process gives it. The other one that has
// the control socket may take the question, too; so it does not wait long for the answer.
func (at Place) isAnsweredBy(pid int) bool {
	conn, err := at.dial(time.Now().Add(beat))
	if err != nil {
		return false
	}
	defer conn.End()
	// The kernel says which process has written the answer (man 7 unix).
	controlErr := conn.Control(func(fd int) { err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PASSCRED, 1) })
	if err = errors.Join(controlErr, err); err == nil {
		err = conn.Send(time.Until(conn.deadline), command{Format: format, Command: commandStatus})
	}
	if err != nil {
		return false
	}
	text, sender, err := conn.PeekFrom(conn.deadline)
	if err != nil || sender != pid {
		return false
	}
	answer, err := decodeReply(text)
	return err == nil && answer.Report != nil
}

// caller is a connection to the control socket, for exchanges until a deadline.
type caller struct {
	*packet.Socket
	deadline time.Time
}

func (at Place) dial(deadline time.Time) (c caller, err error) {
	socket, err := packet.Dial(at.Socket, deadline)
	if packet.TimedOut(err) { // the deadline was over before
		err = errSilent
	}
	return caller{socket, deadline}, err
}

// exchange sends a command, with a descriptor if there is one, and returns the reply, or a
// [Refusal].
func (conn caller) exchange(c command, with ...*os.File) (answer reply, err error) {
	c.Format = format
	var text []byte
	var files bool
	if err = conn.Send(time.Until(conn.deadline), c, with...); err == nil {
		text, files, err = conn.Peek(conn.deadline)
	}
	if files { // of an attacker: to close them may take for ever
		return answer, Refusal("the answer comes with descriptors")
	} else if err == nil {
		err = conn.Skip()
	}
	if packet.TimedOut(err) {
		return answer, errSilent
	} else if err != nil {
		return answer, err
	}
	return decodeReply(text)
}
