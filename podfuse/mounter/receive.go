package mounter

import (
	"errors"
	"fmt"
	"os"
	"time"

	"example.com/pod-info-fuse/internal/packet"
)

// A pair that was taken over can send any file with an order. To close one of a FUSE file system
// takes as long as its server wants, and not even SIGKILL ends that: so no process that is needed
// ever opens it. A child does, hands the socket of who asks on, if it is one, and has the rest open
// for as long as the packet is there: then it is the last one that closes it.
//
//	mounter                                     child
//	  │ ── the link, its end of a socket pair ─> │
//	  │ ── open ───────────────────────────────> │ opens what the next packet has
//	  │ <────────── the socket of who asks ───── │
//	  │ keeps it, takes the packet off the link  │
//	  │ ── close ──────────────────────────────> │ closes the socket: another packet may come
//	  x    end-of-file on the socket pair ─────> │ closes all, and ends, or never does
//
// A child that had something else to open gets no other packet.

const (
	// mostReceivers are children of one link that have not ended. One that closes nothing but
	// sockets ends at once.
	mostReceivers = 8
	// receiveTime is how long a child may take, which has to wait for nobody: the pod is not told
	// to ask again.
	receiveTime = 2 * childTime
	// idleTime is how long a child waits for another packet: programs may start by the hundred.
	idleTime = time.Second
)

// receiver is a child that opens descriptors.
type receiver struct {
	end *packet.Socket
	// idle ends it.
	idle *time.Timer
}

// receive returns the socket of who asks that comes with the next packet of a link. release has to
// be called when the packet is off the link. Only the goroutine that reads the link calls it.
func (m *mounter) receive(p *peer) (socket *os.File, release func(), err error) {
	const open = "open"
	r := p.receiver
	p.receiver = nil
	if r == nil || !r.idle.Stop() || r.end.Send(receiveTime, open) != nil { // none waits, or it has been killed
		if r != nil {
			r.end.Close()
		}
		if r, err = m.newReceiver(p); err != nil {
			return nil, func() {}, err
		}
		err = r.end.Send(receiveTime, open)
	}
	var text []byte
	var files []*os.File
	if err == nil {
		text, files, err = r.end.Receive(time.Now().Add(receiveTime))
	}
	var done result
	if err == nil {
		err = packet.Decode(text, &done)
	}
	switch {
	case err != nil:
		err = fmt.Errorf("a child that opens descriptors: %w", err)
	case done.Error != "":
		err = errors.New(done.Error)
	case len(files) != 1:
		err = errors.New("a child has handed on no socket")
	}
	if err != nil {
		packet.Close(files)
		return nil, r.end.Close, err
	}
	return files[0], func() {
		if r.end.Send(receiveTime, "close") != nil {
			r.end.Close()
			return
		}
		r.idle = time.AfterFunc(idleTime, r.end.Close)
		p.receiver = r
	}, nil
}

func (m *mounter) newReceiver(p *peer) (*receiver, error) {
	if p.receivers.Load() >= mostReceivers {
		return nil, fmt.Errorf("%d descriptors of this pair's cannot be closed; it gets no more", mostReceivers)
	}
	var link *os.File
	err := os.ErrClosed
	m.do(func() {
		if file, there := m.set.Get(peerName(p.number), nil); there && file != nil {
			link, err = duplicate(file)
		}
	})
	if err != nil {
		return nil, err
	}
	defer link.Close()
	ours, theirs, err := packet.Pair()
	if err != nil {
		return nil, err
	}
	defer ours.Close()
	defer theirs.Close()
	end, err := packet.New(ours)
	if err != nil {
		return nil, err
	}
	c, _, err := m.carryOut(receiveTime, job{Kind: "receive"}, link, theirs)
	if c != nil {
		p.receivers.Add(1)
		go func() {
			<-c.ended
			p.receivers.Add(-1)
		}()
	}
	if err != nil {
		end.Close()
		return nil, err
	}
	return &receiver{end: end}, nil
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
	done.then = func() {
		for {
			if _, _, err := mounter.Receive(time.Time{}); err != nil {
				return // its end
			}
			files, err := socketOf(link)
			if err != nil {
				_ = mounter.Send(receiveTime, result{Error: err.Error()})
			} else {
				err = mounter.Send(receiveTime, result{}, files...)
			}
			_, _, endErr := mounter.Receive(time.Time{}) // close, or its end
			for _, file := range files {
				packet.CloseAside(file)
			}
			if err != nil || endErr != nil {
				return
			}
		}
	}
	return done, nil
}

// socketOf opens what comes with the next packet. With an error, the files may be anything.
func socketOf(link *packet.Socket) (files []*os.File, err error) {
	files, more, err := link.PeekFiles(1)
	switch {
	case err != nil:
		return files, fmt.Errorf("open the descriptor of an order: %w", err)
	case more:
		return files, errors.New("it has more than one descriptor, or one that may not be received")
	case len(files) == 0:
		return files, errors.New("it has no descriptor")
	}
	// This asks nobody but the kernel.
	socket, err := packet.New(files[0])
	if err == nil {
		socket.Close()
	}
	return files, err
}
