package mounter

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/internal/devfuse"
	"example.com/pod-info-fuse/internal/mount"
	"example.com/pod-info-fuse/internal/packet"
	"example.com/pod-info-fuse/internal/proc"
	"example.com/pod-info-fuse/podfuse"
	"example.com/pod-info-fuse/podfuse/wire"
	"example.com/pod-info-fuse/survive/volume"
)

// connection is an open /dev/fuse that a program was given, or is to be given.
type connection struct {
	connectionMeta
	file *os.File      // the mounter's duplicate. It stays blocking, as the program's is. nil: it is lost
	gone chan struct{} // closed when it is not in the table any more
	over chan struct{} // closed when its program serves the volume no more
	// hurry is closed when another program wants to serve: a descriptor that nobody has by now
	// is not waited for.
	hurry   chan struct{}
	program int // a process that has it open; 0: not known
	// doubted: that process has it no more, or the mounter before knew it, and whether another one
	// has is being found out.
	doubted bool
	// followed: its program's death is waited for.
	followed bool
	// abandoned: it is being removed, as nobody uses it any more, or there are too many.
	abandoned bool
	// forgotten: its volume is unmounted, and nothing more may be mounted of it.
	forgotten bool
	served    bool // it had answered before its descriptor was lost: see recover.go
}

// connectionMeta is what the next mounter has to know of it.
type connectionMeta struct {
	Volume     volume.ID  `json:"volume"`
	Generation uint64     `json:"generation"`
	Server     volume.ID  `json:"server"`
	Order      string     `json:"order"` // that it was made for
	Peer       identity   `json:"peer"`
	FileSystem fileSystem `json:"fileSystem"`
	Device     uint64     `json:"device,omitempty"`     // of its file system; 0: not mounted yet
	Mountpoint string     `json:"mountpoint,omitempty"` // where it was attached in its own container
	Sent       time.Time  `json:"sent,omitzero"`        // when the program was given it, or a little before
	Served     bool       `json:"served,omitempty"`     // the program has answered
	Dead       bool       `json:"dead,omitempty"`       // the program is dead
	Since      time.Time  `json:"since,omitzero"`       // the time of its death, or when it had Left
	Unmounted  bool       `json:"unmounted,omitempty"`  // it is not in the vault any more
	User       uint32     `json:"user,omitempty"`       // who asked for it
	Pod        string     `json:"pod,omitempty"`        // the UID of its volume's pod, without dashes
	// Left: the program, or its user, has unmounted it. It has until the program dies.
	Left bool `json:"left,omitempty"`
}

// identity is what there is to know of the process that asked for it.
type identity struct {
	PID    int    `json:"pid"`
	Mounts string `json:"mounts"` // a namespace, such as mnt:[4026531841]
	// Group is the directory of the pod's cgroup, "" if that is not known.
	Group string `json:"group,omitempty"`
}

func (c *connection) name() string { return connectionName(c.Volume, c.Generation) }

// dir is its directory in the vault.
func (c *connectionMeta) dir() string { return fmt.Sprintf("%s.%d", c.Volume, c.Generation) }

func (m *mounter) resumeConnection(name string) {
	var meta connectionMeta
	file, good := m.set.Get(name, &meta)
	if !good || file == nil || connectionName(meta.Volume, meta.Generation) != name {
		m.log("%s was kept for nothing", name)
		m.set.Drop(name)
		return
	}
	c := m.addConnection(meta, file)
	m.save(c) // a mounter of version 0.2.0 has written no file
	c.doubted = true
	_, ordered := m.set.Get(c.Order, nil)
	switch {
	case c.Dead && c.Unmounted: // see detachOwnAgain
	case c.Dead:
		go func() { m.detachOwnAgain(c, m.detachOwn(c)) }()
	case ordered: // the order goes on with it
	case c.Sent.IsZero():
		go m.abandon(c)
	default:
		m.follow(c)
	}
}

// programs are followed from their first answer to their death, of which the pair is told.
type programs struct {
	*base
	*children
	*table
	links   map[uint64]*peer
	current uint64 // the link that has said hello last, 0: none
}

// follow waits for the program's first answer, and for its death. An order that is done twice calls
// it twice.
func (m *programs) follow(c *connection) {
	if c.followed || c.Dead {
		return
	}
	c.followed = true
	if !c.Left {
		go m.waitServed(c)
	}
	go m.waitDead(c, c.Sent)
}

// serve has a program serve a volume. Each step can be repeated by the next mounter.
func (m *mounter) serve(o *order) error {
	socket, err := packet.New(o.file)
	if err != nil {
		return err
	}
	defer socket.Close()
	c := m.begun(o)
	if c != nil && !c.Sent.IsZero() {
		// The program may have it, and who asked may have ended; or not. One that has it does not
		// read another answer.
		_ = m.sendDevice(c, socket)
	} else if c, err = m.serveOn(o, socket); err != nil {
		if c := m.begun(o); c != nil { // by the mounter before, and this one has refused it
			m.abandon(c)
		}
		_ = socket.Send(sendTime, wire.Answer{Format: wire.Format, Error: short(err), Again: mayPass(err)})
		return err
	}
	m.do(func() {
		o.Volume, o.Generation = c.Volume, c.Generation
		m.follow(c)
	})
	return nil
}

// mayPass tells of the reason why a program is refused whether it may be another one, or none, when
// it asks again.
func mayPass(err error) bool {
	passing := []error{errServes, errBusy, errManyHang, errHangs, errDied}
	return proc.IsUntold(err) || slices.ContainsFunc(passing, func(one error) bool { return errors.Is(err, one) })
}

func (m *mounter) sendDevice(c *connection, socket *packet.Socket) error {
	if err := m.note(c, func() { c.Sent = time.Now() }); err != nil {
		return err
	}
	file, err := m.device(c)
	if err != nil {
		return err
	}
	defer file.Close()
	answer := wire.Answer{Format: wire.Format, Generation: c.Generation, Notice: m.notice(c)}
	if err := socket.Send(sendTime, answer, file); err != nil {
		return fmt.Errorf("send the descriptor: %w", err)
	}
	return nil
}

// notice tells a program that the volume which it serves is not there, as when its name is
// misspelt. It is not refused: the kubelet may mount the volume later, for a container that is
// added to the pod.
func (c Config) notice(of *connection) string {
	server, err := c.ServerVolumes().Get(of.Server)
	if err != nil {
		return ""
	}
	serves, err := podfuse.AttributesOf(server)
	if err != nil {
		return ""
	}
	if _, err := c.Clients().Get(of.Volume); !errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	return wire.NoVolume(serves.Serves, c.Source) + c.BesideServer(server)
}

// sendTime is how long a program in a pod may take to read an answer; it waits for it.
const sendTime = 100 * time.Millisecond

func (m *mounter) serveOn(o *order, socket *packet.Socket) (*connection, error) {
	p, err := peerOf(socket, o.Accepted)
	if err != nil {
		return nil, err
	}
	defer p.Close()
	server, client, err := m.checkServer(o.Server, p)
	if err != nil {
		return nil, err
	}
	if err := m.recover(client); errors.Is(err, errBusy) { // the one before is being looked for
		return nil, err
	}
	fileSystem, err := m.fileSystem(server, client, o.Options, p)
	if err != nil {
		return nil, err
	}
	pod := podfuse.PlainUID(server.PodUID)
	if err := checkMountpoint(o.Mountpoint, p, pod); err != nil {
		return nil, err
	}
	asks, err := identify(p)
	if err != nil {
		return nil, err
	}
	pause("admit")
	c, err := m.admit(connectionMeta{
		Volume: client, Server: o.Server, Order: o.name, Peer: asks, User: p.uid, Pod: pod, FileSystem: fileSystem,
	})
	if err != nil {
		return nil, err
	}
	// An unmount removes the record, and has the mounter forget the volume then: maybe before the
	// connection was there.
	if _, err := m.ServerVolumes().Get(o.Server); errors.Is(err, fs.ErrNotExist) {
		m.abandon(c)
		return nil, errUnmounted
	}
	release, err := m.lockVolume(client, time.Now().Add(orderTime))
	if err == nil {
		defer release()
		err = m.mountFor(o, c, p, socket)
	}
	if err != nil {
		// Before the next program can mount in the same place: its device may have the number of
		// this one's. And also what is not in the table any more, as it may have been mounted
		// since.
		pause("abandon")
		m.abandon(c)
		return nil, err
	}
	return c, nil
}

// mountFor mounts what a program is to serve, at its own mount point as well, and sends it the
// connection.
func (m *mounter) mountFor(o *order, c *connection, p *process, socket *packet.Socket) error {
	pause("mount")
	if c.Device == 0 {
		device, err := m.mount(c)
		if err != nil {
			return err
		}
		if err := m.note(c, func() { c.Device = device }); err != nil {
			return err
		}
	}
	pause("own")
	if o.Mountpoint != "" {
		if err := m.note(c, func() { c.Mountpoint = o.Mountpoint }); err != nil {
			return err
		}
		own := job{Kind: "own", Dir: c.dir(), PID: p.PID, Path: o.Mountpoint, Device: c.Device, UID: p.uid, GIDs: groups(p), Server: p.serverAt(o.Mountpoint, c.Pod)}
		if err := m.enter(c.Pod, mostHanging, childTime, own, p.File); err != nil {
			return err
		}
	}
	pause("send")
	if err := m.sendDevice(c, socket); err != nil {
		return err
	}
	pause("sent")
	return nil
}

// fileSystem returns the options of a program's mount.
func (c Config) fileSystem(server volume.Record, client volume.ID, o wire.Options, p *process) (fileSystem, error) {
	fsType := "fuse"
	if o.Subtype != "" {
		fsType += "." + o.Subtype
	}
	switch {
	case !wire.IsSubtype(o.Subtype):
		return fileSystem{}, fmt.Errorf("%.70q is no subtype of a file system", o.Subtype)
	case fsType == c.Type:
		return fileSystem{}, fmt.Errorf("the subtype %q is this driver's own", o.Subtype)
	case o.MaxRead < 0:
		return fileSystem{}, fmt.Errorf("max_read=%d is less than 0", o.MaxRead)
	}
	serves, err := podfuse.AttributesOf(server)
	if err != nil {
		return fileSystem{}, err
	}
	record, err := c.Clients().Get(client)
	switch {
	case errors.Is(err, fs.ErrNotExist): // the kubelet mounts it later
	case err != nil:
		return fileSystem{}, err
	case record.PodUID != server.PodUID:
		return fileSystem{}, fmt.Errorf("volume %s is of pod %s, and not of pod %s", client, record.PodUID, server.PodUID)
	default:
		attributes, err := podfuse.AttributesOf(record)
		if err != nil {
			return fileSystem{}, err
		}
		o.DefaultPermissions = o.DefaultPermissions || attributes.DefaultPermissions
	}
	options := fmt.Sprintf("user_id=%d,group_id=%d,allow_other", p.uid, p.gid)
	if o.DefaultPermissions {
		options += ",default_permissions"
	}
	if o.MaxRead > 0 {
		options += ",max_read=" + strconv.Itoa(o.MaxRead)
	}
	flags := uintptr(unix.MS_NOSUID | unix.MS_NODEV)
	if o.ReadOnly {
		flags |= unix.MS_RDONLY
	}
	if o.NoExec { // a flag of the mount, which its copies in containers have, too
		flags |= unix.MS_NOEXEC
	}
	return fileSystem{Type: fsType, Source: serves.Serves, Options: options, Flags: flags}, nil
}

// checkMountpoint refuses a path that is none, and one below which the host would see the mount.
// The program is in a container of a pod: see checkServer.
func checkMountpoint(path string, p *process, pod string) error {
	if path == "" {
		return nil
	}
	if !filepath.IsAbs(path) || filepath.Clean(path) != path || path == "/" || len(path) > wire.LongestPath {
		return fmt.Errorf("%.100q is not an absolute path in its shortest form, below /, of at most %d bytes", path, wire.LongestPath)
	}
	defer tables.Take(pod)()
	mounts, err := p.mounts()
	if err != nil {
		return err
	}
	own, err := mountinfo.GetMounts(nil)
	if err != nil {
		return err
	}
	if at := mountAt(path, mounts); at != nil && sharedIn(own)[peerGroup(at)] {
		return fmt.Errorf("what is mounted on %s would appear on the host, because the mount on %s is shared; mount elsewhere, or remove mountPropagation: Bidirectional from the container", path, at.Mountpoint)
	}
	return p.Alive()
}

// groups are those of a process.
func groups(p *process) (all []uint32) {
	all = []uint32{p.gid}
	status, err := proc.StatusIn(fmt.Sprintf("/proc/%d", p.PID))
	if err != nil {
		return all
	}
	for field := range strings.FieldsSeq(status["Groups"]) {
		if gid, err := strconv.ParseUint(field, 10, 32); err == nil {
			all = append(all, uint32(gid))
		}
	}
	return all
}

// identify finds out what tells the program's processes from others.
func identify(p *process) (id identity, err error) {
	id.PID = p.PID
	id.Mounts, err = proc.Link(p.PID, "ns/mnt")
	pods, podsErr := podsOf(p.PID)
	if len(pods) > 0 { // all are the volume's: checkPod
		id.Group = groupOf(p.PID)
	}
	return id, errors.Join(err, podsErr, p.Alive())
}

// takeOverTime is how long a program waits for the end of the one before.
const takeOverTime = 3 * time.Second

// admit makes a connection for a program, if no other serves the volume. One whose death is not
// known yet is waited for.
func (m *mounter) admit(meta connectionMeta) (c *connection, err error) {
	hurried := false
	until := time.Now().Add(takeOverTime)
	for pauses := firstPause; ; pauses = min(2*pauses, 10*time.Millisecond) {
		m.do(func() {
			living := m.client(meta.Volume).living
			if living != nil && living.Order == meta.Order { // the mounter before has begun
				c = living
				return
			}
			if living != nil {
				if !hurried && !isClosed(living.hurry) {
					close(living.hurry)
				}
				hurried = true
				return
			}
			var fd int
			if fd, err = devfuse.Open(0); err != nil {
				m.tidy(meta.Volume)
				return
			}
			meta.Generation = m.nextGeneration()
			c = m.addConnection(meta, os.NewFile(uintptr(fd), "/dev/fuse"))
			m.keepConnection(c)
		})
		if c != nil || err != nil {
			return c, err
		}
		if time.Now().After(until) {
			return nil, errServes
		}
		time.Sleep(pauses)
	}
}

var errServes = errors.New("another program serves the volume; end it first")

func isClosed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// waitServed waits for the program's first answer, and then unmounts in the vault what dead
// programs have served. One that has been unmounted before serves nobody.
func (m *programs) waitServed(c *connection) {
	if !c.Served {
		m.awaitAnswer(c)
	}
	pause("served")
	var former []*connection
	var dirs []string
	err := m.note(c, func() {
		if c.Dead || c.Left {
			return
		}
		if !c.Served {
			m.begins(c)
		}
		for _, dead := range m.client(c.Volume).former {
			if dead.Dead && !dead.Unmounted {
				former, dirs = append(former, dead), append(dirs, dead.dir())
			}
		}
	})
	if err != nil || len(former) == 0 {
		return
	}
	pause("former")
	// The kernel ends a connection when its last mount, in some container, is gone.
	err = m.enter(c.Pod, mostHangingOut, childTime, job{Kind: "unmount", Dirs: dirs})
	if errors.Is(err, errManyHang) || errors.Is(err, errBusy) {
		err = m.abortIn(dirs)
	}
	if err != nil {
		m.log("volume %s: unmount what dead programs served: %v", c.Volume, err)
		return
	}
	for _, dead := range former {
		_ = m.note(dead, func() { dead.Unmounted = true }) // or it is not there any more
	}
}

// begins notes that a program serves its volume, and tells the pair.
func (m *programs) begins(c *connection) {
	c.Served = true
	m.remember(c.Volume, 1)
	m.tell(wire.Event{Kind: wire.ServedNow, Volume: c.Volume, Generation: c.Generation})
}

// mostAnswerPause is the longest pause between two looks for a program's first answer.
const mostAnswerPause = 2 * time.Second

// awaitAnswer returns when a program has answered FUSE_INIT, or serves the volume no more. The
// kernel tells how many requests wait for an answer, and FUSE_INIT is one of them until it is
// answered. Others come by the program's own mount only: its own container can have one wait there
// that is never answered, and so its volume is not served.
func (m *programs) awaitAnswer(c *connection) {
	for began := time.Now(); ; {
		waiting, err := m.waiting(c.Device)
		ended := m.ended(c)
		if err == nil && waiting == 0 && !ended {
			return
		} else if err != nil && !ended {
			m.do(func() { m.logFailure(c.Volume, "look for the first answer of the program", err) })
		}
		select {
		case <-time.After(min(max(time.Since(began)/8, firstPause), mostAnswerPause)):
		case <-c.over:
			return
		}
	}
}

// ended tells whether the kernel has ended a connection. No program is asked (fs/fuse/dev.c,
// fuse_dev_poll).
func (m *programs) ended(c *connection) bool {
	file, err := m.device(c)
	if err != nil {
		return true
	}
	defer file.Close()
	number, err := packet.Number(file)
	if err != nil {
		return true
	}
	failed, err := proc.Polled(number, 0, 0)
	return failed || err != nil
}

// tell tells the pair.
func (m *programs) tell(e wire.Event, files ...*os.File) {
	if l := m.links[m.current]; l != nil {
		l.tell(e, files...)
	}
}

// tellFormer tells it that a program is dead, with its connection, or lives and serves its volume
// no more.
func (m *programs) tellFormer(c *connection) {
	if c.Dead {
		m.tell(c.diedEvent(), c.file)
	} else if c.Served {
		m.tell(c.diedEvent())
	}
}

func (c *connection) diedEvent() wire.Event {
	return wire.Event{Kind: wire.Died, Volume: c.Volume, Generation: c.Generation, Since: c.Since}
}

// tellAll tells it what it has to know of all volumes. It may know a part of it.
func (m *programs) tellAll() {
	for id, c := range m.volumes {
		for _, former := range c.former {
			m.tellFormer(former)
		}
		if c.living != nil && c.living.Served {
			m.tell(wire.Event{Kind: wire.ServedNow, Volume: id, Generation: c.living.Generation})
		}
	}
}

// abandon removes a connection, and all that was mounted of it.
func (m *programs) abandon(c *connection) {
	m.detachOwn(c)
	m.abort([]*connection{c})
	m.do(func() {
		if !isClosed(c.gone) {
			m.drop(c)
		}
	})
}

// abort ends connections: those who wait get ECONNABORTED.
func (m *programs) abort(all []*connection) {
	var dirs []string
	m.do(func() {
		for _, c := range all {
			if !c.Unmounted {
				dirs = append(dirs, c.dir())
			}
		}
	})
	if len(dirs) == 0 {
		return
	}
	if err := m.abortIn(dirs); err != nil {
		m.log("end connections %v: %v", dirs, err)
	}
}

// detachOwn removes a program's mount from its own container. It returns an error, which it logs a
// few times.
func (m *programs) detachOwn(c *connection) error {
	var path string
	var device uint64
	errand := "uncover"
	m.do(func() {
		if path, device = c.Mountpoint, c.Device; c.file == nil {
			errand = "bury"
		}
	})
	if path == "" || device == 0 {
		return nil
	}
	err := inNamespace(mount.Namespace{PID: c.Peer.PID, Name: c.Peer.Mounts}, cgroup{c.Pod, c.Peer.Group}, func(p *process) error {
		own := []standIn{{Path: path, Above: 1, Top: device}}
		err := m.enter(c.Pod, mostHangingOut, timeOf(errand), job{Kind: errand, PID: p.PID, StandIns: own}, p.File)
		if errors.Is(err, errAgain) {
			return nil // it is not there
		}
		return err
	})
	if err == nil {
		m.do(func() { c.Mountpoint = "" }) // or another one might be removed that has its device's number by then
	} else if !errors.Is(err, errManyHang) {
		m.do(func() {
			m.logFailure(c.Volume, "removal of the program's own mount", fmt.Errorf("%.300s: %w", path, err))
		})
	}
	return err
}

// mostDetachPause is the longest pause between two attempts to remove a program's own mount.
const mostDetachPause = 10 * time.Second

// detachOwnAgain tries again what detachOwn could not do, if its error does not tell whether the
// mount is there: a machine may have no time for a child. As long as the mount is there, the
// program cannot start again, because a look at its mount point fails. Once another program serves
// the volume, nobody knows what has the number of this one's device.
func (m *programs) detachOwnAgain(c *connection, err error) {
	for pause := recoverPause; isUndecided(err); pause = min(2*pause, mostDetachPause) {
		select {
		case <-time.After(pause):
		case <-c.gone:
			return
		}
		unmounted := false
		m.do(func() { unmounted = c.Unmounted })
		if unmounted {
			return
		}
		err = m.detachOwn(c)
	}
}

// isUndecided tells of an error of detachOwn whether the mount may be there.
func isUndecided(err error) bool { return mayPass(err) || proc.IsShort(err) }
