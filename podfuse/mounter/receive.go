package mounter

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"time"

	"example.com/pod-info-fuse/podfuse/packet"
)

// A pair that was taken over can send any file with an order. To close one of a FUSE file system takes as
// long as its server wants, and not even SIGKILL ends that: so no process that is needed ever opens it. A
// child does, hands the socket of who asks on, if it is one, and has the rest open for as long as the
// packet is there: then it is the last one that closes it.
//
//	mounter                                     child
//	  │ ── the link, its end of a pair ────────> │ opens what the next packet has
//	  │ <────────── the socket of who asks ───── │
//	  │ keeps it, takes the packet off the link  │
//	  x    end-of-file on the pair ────────────> │ closes all, and ends, or never does

// mostReceivers are children of one link that have not ended. One that closes nothing but the socket
// ends at once.
const mostReceivers = 8

// receiveTime is how long a child may take, which has to wait for nobody: the pod is not told to ask again.
const receiveTime = 2 * childTime

// receive returns the socket of who asks that comes with the next packet of a link. release has to be called when
// the packet is off the link.
func (m *mounter) receive(p *peer) (socket *os.File, release func(), err error) {
	release = func() {}
	if p.receivers.Load() >= mostReceivers {
		return nil, release, fmt.Errorf("%d descriptors of this pair's cannot be closed; it gets no more", mostReceivers)
	}
	var link *os.File
	m.do(func() {
		file, there := m.set.Get(peerName(p.number), nil)
		if err = os.ErrClosed; there && file != nil {
			link, err = duplicate(file)
		}
	})
	if err != nil {
		return nil, release, err
	}
	defer link.Close()
	ours, theirs, err := packet.Pair()
	if err != nil {
		return nil, release, err
	}
	defer ours.Close()
	defer theirs.Close()
	end, err := packet.New(ours)
	if err != nil {
		return nil, release, err
	}
	c, err := m.dispatch(job{Kind: "receive"}, link, theirs)
	if err != nil {
		end.Close()
		return nil, release, fmt.Errorf("start a child: %w", err)
	}
	p.receivers.Add(1)
	go func() {
		<-c.ended
		p.receivers.Add(-1)
	}()
	if _, err := c.wait(receiveTime); err != nil {
		return nil, end.Close, err
	}
	_, files, err := end.Receive(time.Now())
	if err == nil && len(files) != 1 {
		packet.Close(files)
		err = errors.New("a child has handed on no socket")
	}
	if err != nil {
		return nil, end.Close, err
	}
	return files[0], end.Close, nil
}

// receive is the errand of the child.
func receive(job) (done result, err error) {
	link, err := packet.New(os.NewFile(otherFD, "link"))
	if err != nil {
		return done, err
	}
	mounter, err := packet.New(os.NewFile(moreFD, "mounter"))
	if err != nil {
		return done, err
	}
	files, more, err := link.PeekFiles(1)
	done.then = func() {
		_, _, _ = mounter.Receive(time.Time{}) // its end
		runtime.KeepAlive(files)
	}
	switch {
	case err != nil:
		return done, fmt.Errorf("open the descriptor of an order: %w", err)
	case more:
		return done, errors.New("it has more than one descriptor, or one that may not be received")
	case len(files) == 0:
		return done, errors.New("it has no descriptor")
	}
	// This asks nobody but the kernel.
	if _, err := packet.New(files[0]); err != nil {
		return done, err
	}
	return done, mounter.Send(childTime, "socket", files[0])
}
