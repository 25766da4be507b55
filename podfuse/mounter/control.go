package mounter

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"time"

	"example.com/pod-info-fuse/internal/packet"
	"example.com/pod-info-fuse/internal/proc"
	"example.com/pod-info-fuse/podfuse/wire"
	"example.com/pod-info-fuse/survive/volume"
)

// request is what a call-out of root's asks.
type request struct {
	Kind   string    `json:"kind"`
	Volume volume.ID `json:"volume,omitempty"` // of forget; of status, the first to be told of
	// Child, of replace, is the process that takes over, a child of the call-out's.
	Child int `json:"child,omitempty"`
}

const (
	askStatus = "status"
	// askIdentity is asked every few seconds, and mends nothing.
	askIdentity = "identity"
	askPair     = "pair"    // the answer comes with the pods' socket and the pair's end of a link
	askForget   = "forget"  // a volume was unmounted
	askReplace  = "replace" // it comes with a link to a spare of another version, which takes over
	askStop     = "stop"
)

// Status is the state of the mounter.
type Status struct {
	Version string `json:"version"`
	// Identity is another one after all connections have been lost.
	Identity string `json:"identity"`
	PID      int    `json:"pid"`
	Spare    int    `json:"spare,omitempty"` // PID; 0: there is none
	Linked   bool   `json:"linked"`          // the pair has said hello
	Trouble  string `json:"trouble,omitempty"`
	// Returns counts programs that came back, of all volumes there have been.
	Returns   uint64         `json:"returns"`
	Attaching int            `json:"attaching"` // orders to attach that are under way
	Volumes   []VolumeStatus `json:"volumes,omitempty"`
}

// VolumeStatus is that of a client volume.
type VolumeStatus struct {
	Volume     volume.ID `json:"volume"`
	Generation uint64    `json:"generation,omitempty"` // of the program that lives; 0: none
	Served     bool      `json:"served"`
	Dead       int       `json:"dead,omitempty"` // connections of dead programs that are still used
	Lost       bool      `json:"lost,omitempty"` // a mounter before may have known a program, which is being looked for
	PID        int       `json:"pid,omitempty"`  // of the program
	History
}

type reply struct {
	Error string `json:"error,omitempty"`
	Status
}

// mostVolumesTold keeps a status within a packet.
const mostVolumesTold = 64

// control answers call-outs.
func (m *mounter) control() {
	var listener net.Listener
	var err error
	m.do(func() {
		file, there := m.set.Get(controlName, nil)
		if !there || file == nil {
			err = errors.New("there is no socket for call-outs")
			return
		}
		listener, err = net.FileListener(file)
	})
	if err != nil {
		m.log("%v", err)
		return
	}
	for {
		conn, err := listener.Accept()
		if err != nil {
			m.log("accept a call-out: %v", err)
			time.Sleep(time.Second)
			continue
		}
		if socket, err := packet.Over(conn.(*net.UnixConn)); err == nil {
			go m.callOut(socket)
		}
	}
}

func (m *mounter) callOut(socket *packet.Socket) {
	defer socket.Close()
	user, err := socket.Peer()
	if err != nil || user.Uid != 0 {
		return
	}
	text, files, err := socket.Receive(time.Now().Add(10 * time.Second))
	if err != nil {
		return
	}
	defer packet.Close(files)
	var r request
	var give []*os.File
	if err = packet.Decode(text, &r); err == nil {
		give, err = m.ask(r, files)
	}
	answer := reply{Status: m.status(r.Volume)}
	if err != nil {
		answer.Error = short(err)
	}
	_ = socket.Send(time.Second, answer, give...)
	packet.Close(give)
	if r.Kind == askStop || err == nil && r.Kind == askReplace {
		os.Exit(0) // nobody goes on with what could not be ended
	}
}

func (m *mounter) ask(r request, files []*os.File) (give []*os.File, err error) {
	switch r.Kind {
	case askStatus:
		m.do(m.mend)
	case askIdentity:
	case askPair:
		select { // or dead mounts would cover stand-ins that the call-out is to heal
		case <-m.recovered:
		case <-time.After(recoverTime):
		}
		m.do(func() { give, err = m.give() })
	case askForget:
		_ = m.forget(r.Volume)
	case askReplace:
		if len(files) != 1 {
			return nil, errors.New("replace comes with one descriptor")
		}
		err = m.replace(files[0], r.Child)
	case askStop:
		err = m.stop()
	default:
		err = fmt.Errorf("version %s does not know the request %q", m.Version, r.Kind)
	}
	return give, err
}

// mend tries again what has failed.
func (m *mounter) mend() {
	m.trouble = nil
	m.openVault()
	m.openPods()
}

func (m *mounter) give() ([]*os.File, error) {
	file, there := m.set.Get(podsName, nil)
	if !there {
		return nil, cmp.Or(m.trouble, errors.New("there is no socket for pods"))
	}
	pods, err := duplicate(file)
	if err != nil {
		return nil, err
	}
	end, err := m.newLink()
	if err != nil {
		pods.Close()
		return nil, err
	}
	return []*os.File{pods, end}, nil
}

const (
	// detachTime is how long a volume's programs' own mounts are waited for, and stopTime all
	// volumes: less than a call-out waits for all.
	detachTime = childTime
	stopTime   = 2 * childTime
)

// forget ends the connections of a volume, or those that came by a server volume. It does not wait
// for what is at work on the volume: containers may hold that up. What is mounted of a connection
// from now on, its order removes, which finds that it is forgotten. The programs' own mounts, whose
// paths may hang, are removed afterwards: then detached is closed.
func (m *mounter) forget(id volume.ID) (detached <-chan struct{}) {
	var ended []*connection
	m.do(func() {
		for _, client := range m.volumes {
			for _, c := range client.all() {
				if c.Volume == id || c.Server == id {
					c.forgotten = true
					ended = append(ended, c)
				}
			}
		}
	})
	m.abort(ended)
	pause("forget")
	m.do(func() {
		for _, c := range ended {
			if !isClosed(c.gone) {
				m.drop(c)
			}
		}
		m.forgetHistory(id)
		m.tell(wire.Event{Kind: wire.Forgotten, Volume: id})
	})
	done := make(chan struct{})
	go func() {
		defer close(done)
		if len(ended) == 0 {
			return
		}
		// Another program of the volume may mount in the same place, and its device may get the
		// number of one of these.
		release, err := m.lockVolume(ended[0].Volume, time.Now().Add(orderTime))
		if err != nil {
			m.log("volume %s: remove its programs' own mounts: %v", id, err)
			return
		}
		defer release()
		if !together(len(ended), detachTime, func(i int) { m.detachOwn(ended[i]) }) {
			m.log("volume %s: its programs' own mounts stay in their containers, where a file system does not answer", id)
		}
	}()
	return done
}

// replaceTime is how long a process of another version may take to read all that there is.
const replaceTime = 10 * time.Second

// replace gives all that there is to a process of another version, which takes over when this one
// ends. One that does not read it is killed, and this one goes on.
func (m *mounter) replace(link *os.File, child int) error {
	p, err := proc.Open(child)
	if err != nil {
		return fmt.Errorf("hand over to process %d: %w", child, err)
	}
	var answered func(time.Duration) error
	m.do(func() {
		m.spare, m.leaving = nil, true
		m.set.Kill()
		if err = m.set.Feed(link, func() { _ = p.Kill() }); err == nil { // it may be killed after this function, too
			answered = m.set.Ask()
		}
	})
	if err == nil {
		err = answered(replaceTime)
	}
	if err != nil {
		m.do(func() {
			m.set.Kill()
			if m.leaving = false; m.spare == nil {
				m.newSpare(spareBackoff)
			}
		})
		p.Close()
		return fmt.Errorf("hand over: the process of another version has not read what it was given: %w; version %s goes on", err, m.Version)
	}
	// As soon as the call-out has its answer, and in any case.
	go func() { time.Sleep(5 * time.Second); os.Exit(0) }()
	return nil
}

// together calls a function for so many things, for some of them at the same time, and waits so
// long for all. It reports false if it has not: those that hang are left behind, and the rest is
// left out.
func together(many int, limit time.Duration, f func(i int)) bool {
	const atOnce = 16
	over := time.NewTimer(limit)
	defer over.Stop()
	ended := make(chan struct{}, many)
	for begun, running := 0, 0; begun < many || running > 0; {
		if begun < many && running < atOnce {
			go func(i int) {
				f(i)
				ended <- struct{}{}
			}(begun)
			begun, running = begun+1, running+1
			continue
		}
		select {
		case <-ended:
			running--
		case <-over.C:
			return false
		}
	}
	return true
}

// stop ends all connections. The process ends afterwards, whatever could not be done.
func (m *mounter) stop() error {
	var ids []volume.ID
	m.do(func() {
		m.spare, m.leaving = nil, true
		m.set.Kill()
		for id := range m.volumes {
			ids = append(ids, id)
		}
	})
	if !together(len(ids), stopTime, func(i int) { <-m.forget(ids[i]) }) {
		m.log("stop: the file systems of some programs do not answer, and are left behind")
	}
	return m.remove()
}

// status tells of some volumes, from one on.
func (m *mounter) status(from volume.ID) (s Status) {
	m.do(func() {
		var meta controlMeta
		m.set.Get(controlName, &meta)
		s = Status{Version: m.Version, Identity: meta.Identity, PID: os.Getpid(), Linked: m.current != 0, Returns: m.returns}
		for _, o := range m.orders {
			if o.Kind == wire.Attach {
				s.Attaching++
			}
		}
		if m.spare != nil {
			s.Spare = m.spare.Pid
		}
		if m.trouble != nil {
			s.Trouble = short(m.trouble)
		}
		for id, c := range m.volumes {
			if id < from || c.hasNothing() {
				continue
			}
			v := VolumeStatus{Volume: id, Lost: len(c.lost()) > 0, History: c.history}
			for _, former := range c.former {
				if former.Dead {
					v.Dead++
				}
			}
			if c.living != nil {
				v.Generation, v.Served, v.PID = c.living.Generation, c.living.Served, c.living.program
			}
			s.Volumes = append(s.Volumes, v)
		}
	})
	slices.SortFunc(s.Volumes, func(a, b VolumeStatus) int { return cmp.Compare(a.Volume, b.Volume) })
	s.Volumes = s.Volumes[:min(len(s.Volumes), mostVolumesTold)]
	return s
}
