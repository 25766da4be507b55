package mounter

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/internal/calllog"
	"example.com/pod-info-fuse/internal/filelock"
	"example.com/pod-info-fuse/internal/packet"
	"example.com/pod-info-fuse/internal/proc"
	"example.com/pod-info-fuse/podfuse/mounter/keep"
	"example.com/pod-info-fuse/survive/volume"
)

// Client is the side of root's call-outs. They start the mounter, and have it do what is theirs
// to decide. It is a companion of the pair's.
type Client struct {
	Config
	Log calllog.Log
	// Settle moves a process out of the kubelet's cgroup. nil: it stays.
	Settle func(pid int) error
	more   []string // of the environment of a mounter that it starts: a test sets it
}

const (
	answerTime = 5 * time.Second  // of a mounter that has nothing to do for it
	forgetTime = 15 * time.Second // it sends children, or waits for a process of another version
	ensureTime = 30 * time.Second // for other call-outs
)

var (
	errNone   = errors.New("no mounter runs")
	errSilent = errors.New("the mounter does not answer")
)

// Ensure makes sure that a mounter of this version answers. The identity is another one when a
// link that was given before leads nowhere any more.
func (c Client) Ensure() (identity string, err error) {
	unlock, err := c.lockCallOuts()
	if err != nil {
		return "", err
	}
	defer unlock()
	const tries = 4
	for try := 0; ; try++ {
		var r reply
		r, _, err = c.ask(request{Kind: askStatus}, answerTime)
		switch {
		case err == nil && r.Trouble != "":
			return "", errors.New(r.Trouble)
		case err == nil && r.Version == c.Version:
			return r.Identity, nil
		case try == tries && errors.Is(err, errNone):
			return "", errors.New("the mounter ends as soon as it is started; its log tells why")
		case try == tries:
			return "", cmp.Or(err, fmt.Errorf("the mounter of version %s goes on, though it was replaced", r.Version))
		case err == nil:
			err = c.replace()
		case errors.Is(err, errNone):
			err = c.launch()
		case errors.Is(err, errSilent):
			c.Log.Line("%v; it is killed, and its spare goes on", err)
			if killErr := c.kill(); killErr != nil {
				c.Log.Line("kill the mounter: %v", killErr)
			}
		}
		if err != nil && !errors.Is(err, errSilent) {
			return "", fmt.Errorf("start the mounter: %w", err)
		}
	}
}

// Identity returns that of the mounter, "" if none runs.
func (c Client) Identity() (string, error) {
	r, _, err := c.ask(request{Kind: askIdentity}, answerTime)
	if errors.Is(err, errNone) {
		return "", nil
	}
	return r.Identity, err
}

// Give returns the socket on which pods ask, and the pair's end of a new link. The link that
// was given before stays until its end is closed.
func (c Client) Give() ([]*os.File, error) {
	_, files, err := c.ask(request{Kind: askPair}, answerTime)
	if err == nil && len(files) != 2 {
		packet.Close(files)
		err = fmt.Errorf("the mounter gave %d descriptors, not 2", len(files))
	}
	if err != nil {
		return nil, err
	}
	return files, nil
}

// Forget ends what programs serve for a volume that was unmounted.
func (c Client) Forget(id volume.ID) error {
	_, _, err := c.ask(request{Kind: askForget, Volume: id}, forgetTime)
	if errors.Is(err, errNone) {
		return nil
	}
	return err
}

// Stop ends all that programs serve, and the mounter with its spare, and removes what they have in
// the run directory.
func (c Client) Stop() error {
	unlock, err := c.lockCallOuts()
	if err != nil {
		return err
	}
	defer unlock()
	for range 3 { // a mounter and its spare that are silent, and then none
		if err = c.stop(); !errors.Is(err, errSilent) {
			break
		}
		c.Log.Line("%v; it is killed", err)
		if killErr := c.kill(); killErr != nil {
			return fmt.Errorf("%w, and it cannot be killed: %w", err, killErr)
		}
	}
	if err == nil || errors.Is(err, errNone) {
		return c.remove()
	}
	return err
}

// stop returns when the mounter has ended: it is in a cgroup that is to be removed.
func (c Client) stop() error {
	p, err := c.itself()
	if err == nil {
		defer p.Close()
	} else if !errors.Is(err, errNone) {
		return err
	}
	if _, _, askErr := c.ask(request{Kind: askStop}, forgetTime); askErr != nil {
		return askErr
	}
	if err == nil && !p.Ended(answerTime) { // else somebody has removed the file of its lock, and nobody can wait
		return p.Kill()
	}
	return nil
}

// Status asks for the mounter's state. The error is [fs.ErrNotExist] if none runs.
func (c Client) Status() (Status, error) {
	r, _, err := c.ask(request{Kind: askStatus}, answerTime)
	all := r.Status
	for err == nil && len(r.Volumes) == mostVolumesTold {
		from := r.Volumes[len(r.Volumes)-1].Volume + 1
		r, _, err = c.ask(request{Kind: askStatus, Volume: from}, answerTime)
		all.Volumes = append(all.Volumes, r.Volumes...)
	}
	return all, err
}

// ask asks the mounter. While another one takes over, the question waits.
func (c Client) ask(r request, limit time.Duration) (answer reply, given []*os.File, err error) {
	deadline := time.Now().Add(limit)
	for {
		answer, given, err = c.askOnce(r, deadline, nil)
		if !packet.HasEnded(err) || time.Now().After(deadline) {
			return answer, given, err
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func (c Client) askOnce(r request, deadline time.Time, files []*os.File) (answer reply, given []*os.File, err error) {
	socket, err := packet.Dial(c.MounterSocket(), deadline)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ECONNREFUSED) {
		return answer, nil, fmt.Errorf("%w: %w", errNone, fs.ErrNotExist)
	} else if packet.TimedOut(err) {
		return answer, nil, errSilent
	} else if err != nil {
		return answer, nil, err
	}
	defer socket.Close()
	if err := socket.Send(time.Until(deadline), r, files...); err != nil {
		return answer, nil, err
	}
	text, given, err := socket.Receive(deadline)
	if packet.TimedOut(err) {
		return answer, nil, errSilent
	} else if err != nil {
		return answer, nil, err
	}
	if err = packet.Decode(text, &answer); err == nil && answer.Error != "" {
		err = errors.New(answer.Error)
	}
	if err != nil {
		packet.Close(given)
		return answer, nil, err
	}
	return answer, given, nil
}

// launch starts a mounter where there is none: as the spare of this process, with nothing but the
// socket of call-outs.
func (c Client) launch() error {
	_ = os.Remove(c.MounterSocket())
	listener, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: c.MounterSocket(), Net: "unixpacket"})
	if err != nil {
		return err
	}
	defer listener.Close()
	listener.SetUnlinkOnClose(false)
	if err := os.Chmod(c.MounterSocket(), 0o600); err != nil {
		return err
	}
	control, err := listener.File()
	if err != nil {
		return err
	}
	set := keep.New()
	set.Put(controlName, controlMeta{rand.Text()}, control)
	defer set.Close()
	link, process, err := c.start()
	if err != nil {
		return err
	}
	defer link.Close()
	go func() { _, _ = process.Wait() }()
	if err := set.Feed(link, func() { _ = process.Kill() }); err != nil {
		return err
	}
	set.Forget() // it has all, and takes over
	return nil
}

// start starts a mounter as a spare of this process, outside of the kubelet's cgroup, and returns
// our end of its link.
func (c Client) start() (link *os.File, process *os.Process, err error) {
	log, err := c.Log.Open()
	if err != nil {
		return nil, nil, err
	}
	defer log.Close()
	if link, process, err = c.Config.start(slices.Concat(environment, c.more), log); err != nil || c.Settle == nil {
		return link, process, err
	}
	if err := c.Settle(process.Pid); err != nil { // while it has no children
		c.Log.Line("mounter: %v; a restart of the kubelet may kill it", err)
	}
	return link, process, nil
}

// replace starts a mounter of this version, and has the one of another version give it all. The new
// one ends by itself if it is not given all; if it is, nobody else has it.
func (c Client) replace() error {
	if p, err := c.itself(); err == nil {
		p.Close()
	} else if !errors.Is(err, errNone) {
		return err
	}
	link, process, err := c.start()
	if err != nil {
		return err
	}
	defer link.Close()
	defer func() { go func() { _, _ = process.Wait() }() }() // not before: until then, nobody else has its number
	answer, _, err := c.askOnce(request{Kind: askReplace, Child: process.Pid}, time.Now().Add(forgetTime), []*os.File{link})
	switch {
	case packet.HasEnded(err):
		return nil // who has it all by now is asked again
	case answer.Error != "":
		_ = process.Kill() // before it can read the end of the link
	}
	return err
}

// kill kills the process that is the mounter.
func (c Client) kill() error {
	p, err := c.itself()
	if errors.Is(err, errNone) {
		return nil
	} else if err != nil {
		return err
	}
	defer p.Close()
	return p.Kill()
}

// lockCallOuts has one call-out at a time start or end the mounter. Nobody but root can open the
// file: whoever has a descriptor can lock it, and pass it on.
func (c Client) lockCallOuts() (unlock func(), err error) {
	file, err := os.OpenFile(c.startsPath(), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := filelock.Within(time.Now().Add(ensureTime), file, filelock.Flock(unix.LOCK_EX)); err != nil {
		file.Close()
		return nil, fmt.Errorf("another call-out starts or ends the mounter: %w", err)
	}
	return func() { file.Close() }, nil
}

// A call-out may be in another PID namespace than the mounter: that of a kubelet in a container
// that shares the run directory, say. There, the numbers of the mounter's processes are others'. So
// such a call-out ends and replaces no mounter, and kills nobody: it is refused. Who the mounter
// is, the kernel tells by its lock.

// errElsewhere says that the mounter is in another PID namespace.
var errElsewhere = errors.New("the mounter is in another PID namespace; call the driver in the namespaces in which the mounter was started")

// itself opens the process that is the mounter. The error is errNone if there is none.
func (c Config) itself() (*proc.Process, error) {
	// Who has the lock must not call this: to close the file gives it up (man 2 fcntl_locking).
	file, err := os.OpenFile(c.lockPath(), os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errNone
	} else if err != nil {
		return nil, err
	}
	defer file.Close()
	for range 5 { // its spare may take over meanwhile
		pid, err := lockHolder(file)
		if err != nil {
			return nil, err
		}
		p, err := proc.Open(pid)
		if err != nil {
			continue
		}
		theirs, linkErr := proc.Link(pid, "ns/pid")
		ours, err := proc.Link(os.Getpid(), "ns/pid")
		still, lockErr := lockHolder(file)
		switch {
		case linkErr != nil || lockErr != nil || still != pid: // another one takes over
			p.Close()
		case err != nil || ours != theirs:
			p.Close()
			return nil, errors.Join(errElsewhere, err)
		default:
			return p, nil
		}
	}
	return nil, errors.New("the processes that are the mounter end, one after the other")
}

// Usage is what the mounter uses, and its spare. Each is nil if there is none. Both are if the
// kernel does not confirm that the process is the mounter which says so. It needs no capability.
func (c Client) Usage(now Status) (mounter, spare *proc.Usage) {
	file, err := os.OpenFile(c.lockPath(), os.O_RDWR, 0)
	if err != nil {
		return nil, nil
	}
	defer file.Close()
	if holder, err := lockHolder(file); err != nil || holder != now.PID {
		return nil, nil
	}
	return usage(now.PID), usage(now.Spare)
}

func usage(pid int) *proc.Usage {
	u, err := proc.UsageOf(pid)
	if err != nil {
		return nil
	}
	return &u
}

// lockHolder is the number that the process which has the mounter's lock has here.
func lockHolder(file *os.File) (int, error) {
	pid, held, err := filelock.Holder(file, 0, 0)
	if err != nil {
		return 0, err
	}
	switch {
	case !held:
		return 0, errNone
	case pid == 0:
		return 0, errElsewhere
	}
	return pid, nil
}
