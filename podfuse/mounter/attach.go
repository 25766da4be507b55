package mounter

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"example.com/pod-info-fuse/internal/mount"
	"example.com/pod-info-fuse/internal/proc"
	"example.com/pod-info-fuse/survive/volume"
)

// attach puts what a program serves on top of the volume's stand-ins where a process runs. Of an
// order without a process, it does so wherever something of a former program is on top of one.
//
// A program is not taken to live because it did before: see lives. Who waits for an order is not
// answered before it is certain that it lived when all was attached.
func (m *mounter) attach(o *order) error {
	record, err := m.Clients().Get(o.Volume)
	if err != nil {
		return err
	}
	until := time.Now().Add(orderTime)
	if err := m.lives(o, until); err != nil {
		return err
	}
	if err := m.attachAll(o, record, until); err != nil {
		return err
	}
	return m.lives(o, until)
}

// attachAll attaches what an order asks for. It does not ask whether the program lives.
func (m *mounter) attachAll(o *order, record volume.Record, until time.Time) error {
	release, err := m.lockVolume(o.Volume, until)
	if err != nil {
		return err
	}
	defer release()
	if o.PID != 0 {
		p, err := openProcess(o.PID)
		if err != nil {
			return err
		}
		defer p.Close()
		all, err := m.standIns(record, p)
		if err != nil {
			return err
		}
		return m.attachIn(o, p, all, until)
	}
	return m.eachContainer(record, until, func(p *process, all []standIn) error {
		if !slices.ContainsFunc(all, func(s standIn) bool { return s.Above > 0 }) {
			return nil // nobody has looked there yet
		}
		return m.attachIn(o, p, all, until)
	})
}

// eachContainer calls a function with a process of each mount namespace that has a volume inside a
// container, and joins its errors. A pod can have thousands of namespaces: at the time until, it
// stops with errNoTime. It leaves out a process that cannot be asked, which is in execve(2) and
// waits for no volume.
func (m *programs) eachContainer(record volume.Record, until time.Time, f func(*process, []standIn) error) error {
	group := m.cgroupOf(record)
	namespaces, err := group.namespaces()
	if err != nil {
		return err
	}
	var problems []error
	for _, namespace := range namespaces {
		if !time.Now().Before(until) {
			return errors.Join(append(problems, errNoTime)...)
		}
		problems = append(problems, inNamespace(namespace, group, func(p *process) error {
			there, err := m.standIns(record, p)
			switch {
			case isUnknown(err):
				return err
			case err != nil:
				return nil // it has none
			}
			return f(p, there)
		}))
	}
	return errors.Join(problems...)
}

// isUnknown tells of an error of standIns whether nobody knows for now what is a stand-in.
func isUnknown(err error) bool { return errors.Is(err, errNoNodeMount) || proc.IsShort(err) }

// inNamespace calls a function with a process of a pod's mount namespace, and once more with
// another one if that has left it meanwhile, as it does before it has ended: who waits in there is
// not to be forgotten. A namespace without a process is no error.
func inNamespace(namespace mount.Namespace, group cgroup, f func(*process) error) (err error) {
	const tries = 5 // or a container could keep the mounter busy
	for range tries {
		p, openErr := openProcess(namespace.PID)
		if proc.IsShort(openErr) {
			return openErr
		} else if openErr == nil {
			isIn := func() bool {
				name, _ := proc.Link(p.PID, "ns/mnt")
				return name == namespace.Name && p.Alive() == nil
			}
			is := isIn()
			if err = nil; is {
				err = f(p)
				is = isIn()
			}
			p.Close()
			if is {
				return err
			}
		}
		all, listErr := group.namespaces()
		i := slices.IndexFunc(all, func(other mount.Namespace) bool { return other.Name == namespace.Name })
		if i < 0 {
			return listErr
		}
		namespace = all[i]
	}
	return err
}

// attachIn attaches the program's file system on all stand-ins in the mount namespace of one
// process.
func (m *mounter) attachIn(o *order, p *process, all []standIn, until time.Time) error {
	c, err := m.living(o)
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(s standIn) bool { return s.Top == c.Device })
	if len(all) > mostStandIns {
		return fmt.Errorf("the container has the volume on %d paths; at most %d can be served", len(all), mostStandIns)
	}
	return m.change("attach", mostHanging, c, p, all, until)
}

var errNoTime = errors.New("no time is left to change a container's mounts; it is tried again")

// change has a child change what a container has of a program on some stand-ins. If the container
// mounts meanwhile, the error is errAgain.
func (m *programs) change(kind string, most int, c *connection, p *process, some []standIn, until time.Time) error {
	left := time.Until(until)
	switch {
	case len(some) == 0:
		return nil
	case left <= 0:
		return errNoTime
	}
	pause(kind)
	return m.enter(c.Pod, most, min(timeOf(kind), left), job{Kind: kind, Dir: c.dir(), PID: p.PID, StandIns: some}, p.File)
}

// mostStandIns is how many paths a container can have a volume on: a child has to attach them
// all within its time.
const mostStandIns = 100
