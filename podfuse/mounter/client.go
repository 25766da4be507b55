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

// stop returns when the processes have ended: they are in a cgroup that is to be removed.
func (c Client) stop() error {
	ending, err := c.processes()
	if err != nil {
		return err
	}
	for _, p := range ending {
		defer p.Close()
	}
	if _, _, err := c.ask(request{Kind: askStop}, forgetTime); err != nil {
		return err
	}
	for until := time.Now().Add(answerTime); len(ending) > 0; time.Sleep(time.Millisecond) {
		ending = slices.DeleteFunc(ending, func(p *process) bool { return p.Alive() != nil })
		if time.Now().After(until) {
			for _, p := range ending {
				err = errors.Join(err, p.Kill())
			}
			break
		}
	}
	return err
}

// processes opens the mounter and its spare.
func (c Client) processes() ([]*process, error) {
	for until := time.Now().Add(answerTime); ; time.Sleep(10 * time.Millisecond) {
		now, _, err := c.ask(request{Kind: askStatus}, answerTime)
		if err != nil {
			return nil, err
		}
		p, err := c.itself()
		if err == nil && p.PID != now.PID {
			p.Close()
			err = fmt.Errorf("it is process %d", p.PID)
		}
		switch late := time.Now().After(until); {
		case err == nil:
			all := []*process{p}
			if spare, err := childOf(p.PID, now.Spare); err == nil { // or it has ended
				all = append(all, spare)
			}
			return all, nil
		case errors.Is(err, errNone) && late:
			return nil, nil // somebody has removed the file of its lock: it ends when it is told, and nobody can wait for that
		case errors.Is(err, errElsewhere) || late: // or another one takes over
			return nil, fmt.Errorf("find the mounter, which says that it is process %d, to wait for its end: %w", now.PID, err)
		}
	}
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
	process, err := c.startWith(set)
	if err != nil {
		return err
	}
	set.Forget() // it has all, and takes over
	go func() { _, _ = process.Wait() }()
	return nil
}

// startWith starts a mounter as the spare of a set's owner.
func (c Client) startWith(set *keep.Set) (*os.Process, error) {
	log, err := c.Log.Open()
	if err != nil {
		return nil, err
	}
	defer log.Close()
	link, process, err := c.Config.start(slices.Concat(environment, c.more), log)
	if err != nil {
		return nil, err
	}
	defer link.Close()
	c.settle(process)
	kill := func() { _ = process.Kill() }
	if err := set.Feed(link, kill); err != nil {
		_, _ = process.Wait()
		return nil, err
	}
	return process, nil
}

// settle moves a process out of the kubelet's cgroup, while it has no children.
func (c Client) settle(process *os.Process) {
	if c.Settle == nil {
		return
	}
	if err := c.Settle(process.Pid); err != nil {
		c.Log.Line("mounter: %v; a restart of the kubelet may kill it", err)
	}
}

// replace starts a mounter of this version, and has the one of another version give it all. The new
// one ends by itself if it is not given all; if it is, nobody else has it.
func (c Client) replace() error {
	if p, err := c.itself(); err == nil {
		p.Close()
	} else if errors.Is(err, errElsewhere) {
		return err
	}
	log, err := c.Log.Open()
	if err != nil {
		return err
	}
	defer log.Close()
	link, process, err := c.Config.start(slices.Concat(environment, c.more), log)
	if err != nil {
		return err
	}
	defer link.Close()
	c.settle(process)
	go func() { _, _ = process.Wait() }()
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

// lockCallOuts has one call-out at a time start or end the mounter.
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
