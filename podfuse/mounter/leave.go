package mounter

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"example.com/pod-info-fuse/internal/mount"
	"example.com/pod-info-fuse/podfuse/packet"
	"example.com/pod-info-fuse/podfuse/wire"
	"example.com/pod-info-fuse/survive/volume"
)

// fusermount -u ends what a program serves: its mount is gone, and when nobody uses it any more, the kernel
// ends the connection, and the program reads ENODEV and ends. Here, the mount is in several places, and so it
// goes in all of them. Whoever walks a path then finds the stand-in, and waits for the next program.
//
// The mounter keeps its duplicate of the descriptor until the program dies. What it had not answered
// is then answered by the pair, as after any other death.

// unmount does that for a program of the container that asks, and for nobody but its user and root. Each step
// can be repeated by the next mounter. Of an error, the pair tells who has asked.
func (m *mounter) unmount(o *order) error {
	socket, err := packet.New(o.file)
	if err != nil {
		return err
	}
	defer socket.Close()
	until := time.Now().Add(orderTime)
	if o.Leaves != 0 {
		return m.unmountFurther(o, socket, until)
	}
	p, err := peerOf(socket, o.Accepted)
	if err != nil {
		return err
	}
	defer p.close()
	_, client, err := m.checkServer(o.Server, p)
	if err != nil {
		return err
	}
	release, err := m.lockVolume(client, until)
	if err != nil {
		return err
	}
	defer release()
	c := m.mountedAt(client, o.Mountpoint)
	switch {
	case c == nil:
		return fmt.Errorf("%q is not where the program has mounted", o.Mountpoint)
	case p.uid != 0 && p.uid != c.User:
		return fmt.Errorf("user %d has mounted on %s, and user %d may not unmount it", c.User, o.Mountpoint, p.uid)
	}
	if err := m.mayEnter(c.pod(), mostHangingOut); err != nil { // and it goes on serving
		return err
	}
	m.do(func() {
		o.Leaves = c.Generation
		m.set.Note(o.name, o)
	})
	if err := m.leave(c); err != nil {
		return err
	}
	pause("left")
	ownErr := m.enter(c.pod(), mostHangingOut, childTime, job{Kind: "detach", PID: p.pid, Path: o.Mountpoint, Device: c.Device}, p.fd)
	if err := errors.Join(ownErr, m.uncoverAll(c, until)); err != nil {
		return err
	}
	return m.unmountLast(c, socket)
}

// unmountFurther goes on where the mounter before was killed.
func (m *mounter) unmountFurther(o *order, socket *packet.Socket, until time.Time) error {
	c := m.find(func(c *connection) bool { return c.Generation == o.Leaves })
	if c == nil {
		return nil // it has ended
	}
	release, err := m.lockVolume(c.Volume, until)
	if err != nil {
		return err
	}
	defer release()
	if err := m.leave(c); err != nil {
		return err
	}
	m.detachOwn(c)
	if err := m.uncoverAll(c, until); err != nil {
		return err
	}
	return m.unmountLast(c, socket)
}

// unmountLast unmounts it in the vault, and answers before: that may wait for what is written back, which a program that
// waits for the answer does not take.
func (m *mounter) unmountLast(c *connection, socket *packet.Socket) error {
	sendErr := socket.Send(sendTime, wire.Answer{Format: wire.Format})
	pause("unmounting")
	err := m.enter(c.pod(), mostHangingOut, childTime, job{Kind: "unmount", Dirs: []string{c.dir()}})
	if errors.Is(err, errManyHang) {
		m.abort([]*connection{c})
		err = nil
	}
	if errors.Is(err, errHangs) {
		// A child unmounts it, sooner or later. When the program dies, the kernel may have given its number to the next
		// one's own mount, on the same path.
		return errors.Join(sendErr, err, m.note(c, func() { c.Mountpoint = "" }))
	} else if err != nil { // it is there, and the program can be told to unmount once more
		return errors.Join(sendErr, err)
	}
	return errors.Join(sendErr, m.note(c, func() { c.Mountpoint, c.Unmounted = "", true }))
}

// mostLeft is how many programs of a volume are followed that have unmounted it. More than that, and the connection of
// the one that left first is closed here, or a pod that goes on using what it has unmounted could use up the mounter's
// descriptors. When that program ends, who has a file of it open gets ECONNABORTED; at once, where it could not be unmounted.
const mostLeft = 8

// mountedAt is the connection of a program that has its own mount on a path; nil: none has.
func (m *mounter) mountedAt(id volume.ID, path string) (found *connection) {
	m.do(func() {
		client := m.volumes[id]
		if client == nil || path == "" {
			return
		}
		for _, c := range client.all() { // that which lives is the last one
			if !c.Dead && c.Device != 0 && c.Mountpoint == path {
				found = c
			}
		}
	})
	return found
}

// leave notes that a program serves its volume no more, and tells the pair.
func (m *mounter) leave(c *connection) error {
	return m.note(c, func() {
		if c.Left || c.Dead {
			return
		}
		c.Left, c.Since = true, time.Now()
		client := m.client(c.Volume)
		client.remove(c)
		client.left = append(client.left, c)
		m.giveUp(client.left, mostLeft)
		if c.Served {
			m.remember(c.Volume, 0)
		}
		m.tellLeft(c)
	})
}

// giveUp abandons the oldest of some connections, but for the last ones.
func (m *mounter) giveUp(all []*connection, but int) {
	for _, oldest := range all[:max(0, len(all)-but)] {
		if !oldest.abandoned {
			oldest.abandoned = true
			go m.abandon(oldest)
		}
	}
}

// uncoverAll removes a program's mount from the volume's stand-ins, in all containers.
func (m *mounter) uncoverAll(c *connection, until time.Time) error {
	record, err := m.Clients().Get(c.Volume)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // it is mounted nowhere
	} else if err != nil {
		return err
	}
	leave, err := m.place(record.PodUID, until)
	if err != nil {
		return err
	}
	defer leave()
	return m.eachContainer(record, func(p *process, all []standIn) error {
		const tries = 5 // a container may mount meanwhile
		for try := 0; ; try++ {
			all = slices.DeleteFunc(all, func(s standIn) bool { return s.Above == 0 || s.Top != c.Device })
			if len(all) == 0 {
				return nil
			}
			left := time.Until(until)
			if left <= 0 {
				return errors.New("no time is left to remove the program's mount from a container")
			}
			err := m.enter(c.pod(), mostHangingOut, min(childTime, left), job{Kind: "uncover", PID: p.pid, StandIns: all}, p.fd)
			if !errors.Is(err, errAgain) || try == tries {
				return err
			}
			if all, err = m.standIns(record, p); err != nil {
				return err
			}
		}
	})
}

// uncover is the errand of a child: it removes what programs have on stand-ins.
func uncover(j job) (result, error) {
	return result{}, inContainer(j.PID, func() error {
		for _, s := range j.StandIns {
			if err := mount.Detach(s.Path, s.Above, s.Top); err != nil {
				return again(err)
			}
		}
		return nil
	})
}
