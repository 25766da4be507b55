package mounter

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"example.com/pod-info-fuse/internal/mount"
	"example.com/pod-info-fuse/internal/packet"
	"example.com/pod-info-fuse/podfuse/wire"
	"example.com/pod-info-fuse/survive/volume"
)

// fusermount -u ends what a program serves: its mount is gone, and when nobody uses it any more,
// the kernel ends the connection, and the program reads ENODEV and ends. Here, the mount is in
// several places, and so it goes in all of them. Whoever walks a path then finds the stand-in, and
// waits for the next program.
//
// The mounter keeps its duplicate of the descriptor until the program dies. What it had not
// answered is then answered by the pair, as after any other death.

// unmount does that for a program of the container that asks, and for nobody but its user and root.
// Each step can be repeated by the next mounter, for which who asks may have ended. Of an error,
// the pair tells who has asked.
func (m *mounter) unmount(o *order) error {
	socket, err := packet.New(o.file)
	if err != nil {
		return err
	}
	defer socket.Close()
	until := time.Now().Add(orderTime)
	var p *process
	var c *connection
	var id volume.ID
	if o.Leaves == 0 {
		if p, err = peerOf(socket, o.Accepted); err != nil {
			return err
		}
		defer p.Close()
		if _, id, err = m.checkServer(o.Server, p); err != nil {
			return err
		}
	} else if c = m.find(func(c *connection) bool { return c.Generation == o.Leaves }); c == nil {
		return nil // it has ended
	} else {
		id = c.Volume
	}
	release, err := m.lockVolume(id, until)
	if err != nil {
		return err
	}
	defer release()
	if c == nil {
		if c, err = m.mayUnmount(o, id, p.uid); err != nil {
			return err
		}
	}
	if err := m.leave(c); err != nil {
		return err
	}
	pause("left")
	// Of an error, the program can be told to unmount once more: who asks is known by the path.
	unfinished := func(err error) error {
		m.do(func() { c.Mountpoint = o.Mountpoint })
		return err
	}
	if err := errors.Join(m.detachOwn(c), m.uncoverAll("uncover", c, until)); err != nil {
		return unfinished(err)
	}
	// Before it is unmounted in the vault: that may wait for what is written back, which a program
	// that waits for the answer does not take.
	sendErr := socket.Send(sendTime, wire.Answer{Format: wire.Format})
	pause("unmounting")
	err = m.enter(c.Pod, mostHangingOut, childTime, job{Kind: "unmount", Dirs: []string{c.dir()}})
	if errors.Is(err, errManyHang) {
		m.abort([]*connection{c})
		err = nil
	}
	// Where a child hangs, it unmounts it, sooner or later. When the program dies, the kernel may
	// have given its number to the next one's own mount, on the same path.
	hangs := errors.Is(err, errHangs)
	if err != nil && !hangs {
		return unfinished(errors.Join(sendErr, err))
	}
	return errors.Join(sendErr, err, m.note(c, func() { c.Mountpoint, c.Unmounted = "", !hangs }))
}

// mayUnmount is the connection that an order unmounts, if the user who asks may.
func (m *mounter) mayUnmount(o *order, id volume.ID, uid uint32) (*connection, error) {
	c := m.find(func(c *connection) bool {
		return c.Volume == id && c.file != nil && !c.Dead && c.Device != 0 && c.Mountpoint == o.Mountpoint && c.Mountpoint != ""
	})
	switch {
	case c == nil:
		return nil, fmt.Errorf("%q is not where the program has mounted", o.Mountpoint)
	case uid != 0 && uid != c.User:
		return nil, fmt.Errorf("user %d has mounted on %s, and user %d may not unmount it", c.User, o.Mountpoint, uid)
	}
	m.do(func() {
		o.Leaves = c.Generation
		m.set.Note(o.name, o)
	})
	return c, nil
}

// leave notes that a program serves its volume no more, and tells the pair.
func (m *programs) leave(c *connection) error {
	return m.note(c, func() {
		if c.Left || c.Dead {
			return
		}
		c.Left, c.Since = true, time.Now()
		if c.Served {
			m.remember(c.Volume, 0)
		}
		m.isFormer(c)
	})
}

// isFormer makes a connection a former one, and tells the pair.
func (m *programs) isFormer(c *connection) {
	client := m.client(c.Volume)
	client.remove(c)
	client.former = append(client.former, c)
	m.tellFormer(c)
	m.giveUp(client.former, mostFormer)
}

// giveUp abandons the oldest of some connections, but for the last ones.
func (m *programs) giveUp(all []*connection, but int) {
	for _, oldest := range all[:max(0, len(all)-but)] {
		if !oldest.abandoned {
			oldest.abandoned = true
			go m.abandon(oldest)
		}
	}
}

// uncoverAll removes a program's mount from the volume's stand-ins, in all containers, by an
// errand: see uncover.
func (m *programs) uncoverAll(errand string, c *connection, until time.Time) error {
	record, err := m.Clients().Get(c.Volume)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // it is mounted nowhere
	} else if err != nil {
		return err
	}
	return m.eachContainer(record, until, func(p *process, all []standIn) error {
		all = slices.DeleteFunc(all, func(s standIn) bool { return s.Above == 0 || s.Top != c.Device })
		return m.change(errand, mostHangingOut, c, p, all, until)
	})
}

// uncover is the errand of a child: it removes what programs have on stand-ins, or on a mount point
// of their own; by the name "bury", what dead programs have.
func uncover(j job) (result, error) {
	return result{}, inContainer(j.PID, func() error {
		for _, s := range j.StandIns {
			if j.Kind == "bury" {
				if err := isDead(s.Path, s.Top); err != nil {
					return again(err)
				}
			}
			if err := mount.Detach(s.Path, s.Above, s.Top); err != nil {
				return again(err)
			}
		}
		return nil
	})
}
