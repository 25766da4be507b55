package attack

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/internal/packet"
	"example.com/pod-info-fuse/podfuse/wire"
	"example.com/pod-info-fuse/survive/hold"
	"example.com/pod-info-fuse/survive/volume"
)

// Orders is the version whose pair gives orders of its own; see [OnMounter].
const Orders = "orders"

// OnMounter does what somebody may do who has taken over the process of pod-fuse's pair that
// serves: it has root's mounter do what root's records do not support, by the link that the process
// was given, and asks for more than the mounter can do. It finds its victims as the pair can, in
// /proc and in the records of the run directory. What is refused, what is done, and each
// descriptor that comes is logged.
//
// The control is a "done" order: the same as a refused one, but for what is forged.
func OnMounter(runDir string, link, pods *os.File, log func(format string, args ...any)) {
	defer log("attacks on the mounter end")
	socket, err := packet.New(link)
	var by int
	if err == nil {
		by, err = packet.Number(link)
	}
	if err != nil {
		log("attack: %v", err)
		return
	}
	m := &orders{
		link: socket, by: by, log: log, answers: map[uint64]chan wire.Event{}, got: map[string]bool{}, serves: map[volume.ID]uint64{},
		clients: records(filepath.Join(runDir, "volumes")), servers: records(filepath.Join(runDir, "server-volumes")),
	}
	go m.receive()
	m.order(wire.Order{Kind: wire.Hello})
	m.forge(pods, link)
	m.garble()
	m.flood()
	m.order(wire.Order{Kind: wire.Hello})
}

type orders struct {
	link             *packet.Socket
	by               int // see packet.Socket.SendBy
	log              func(format string, args ...any)
	clients, servers []volume.Record
	tickets          uint64

	mu      sync.Mutex // guards what follows
	answers map[uint64]chan wire.Event
	got     map[string]bool      // descriptors
	serves  map[volume.ID]uint64 // which program
}

func records(dir string) (all []volume.Record) {
	store := volume.Store{Dir: dir}
	ids, _ := store.IDs()
	for _, id := range ids {
		if record, err := store.Get(id); err == nil {
			all = append(all, record)
		}
	}
	return all
}

func (m *orders) receive() {
	for {
		text, files, err := m.link.Receive(time.Time{})
		if err != nil {
			m.log("attack: the link has ended: %v", err)
			return
		}
		var e wire.Event
		if err := packet.Decode(text, &e); err != nil {
			m.log("attack: %v", err)
		}
		if got := fmt.Sprintf("%s %s", e.Kind, e.Volume); len(files) > 0 && !m.got[got] {
			m.log("attack got a descriptor: %s", got)
			m.got[got] = true
		}
		packet.Close(files)
		m.mu.Lock()
		if e.Kind == wire.ServedNow {
			m.serves[e.Volume] = e.Generation
		}
		if answer := m.answers[e.Ticket]; answer != nil && e.Ticket != 0 {
			delete(m.answers, e.Ticket)
			answer <- e
		}
		m.mu.Unlock()
	}
}

const answerTimeout = time.Minute // only a mounter that hangs takes so long

func (m *orders) send(o wire.Order, files ...*os.File) (answer chan wire.Event) {
	m.tickets++
	o.Ticket = uint64(os.Getpid())<<32 + m.tickets
	answer = make(chan wire.Event, 1)
	m.mu.Lock()
	m.answers[o.Ticket] = answer
	m.mu.Unlock()
	if err := m.link.SendBy(m.by, answerTimeout, o, files...); err != nil {
		m.log("attack: send: %v", err)
	}
	return answer
}

func (m *orders) order(o wire.Order, files ...*os.File) (problem string) {
	select {
	case e := <-m.send(o, files...):
		return e.Error
	case <-time.After(answerTimeout):
		m.log("attack: no answer to %+v", o)
		return "no answer"
	}
}

// try logs whether the mounter does what it must not.
func (m *orders) try(what string, o wire.Order, files ...*os.File) {
	if problem := m.order(o, files...); problem != "" {
		m.log("attack refused: %s: %s", what, problem)
	} else {
		m.log("attack succeeded: %s: %+v", what, o)
	}
}

// forge has orders name what does not belong together.
func (m *orders) forge(pods, link *os.File) {
	ours, theirs, err := packet.Pair()
	if err != nil {
		m.log("attack: %v", err)
		return
	}
	defer ours.Close()
	defer theirs.Close()
	file, err := os.Open("/proc/self/status")
	if err != nil {
		m.log("attack: %v", err)
		return
	}
	defer file.Close()
	root, err := os.OpenFile("/", unix.O_PATH|unix.O_DIRECTORY, 0) // Landlock lets everybody
	if err != nil {
		m.log("attack: %v", err)
		return
	}
	defer root.Close()
	other := volume.NewID("/var/lib/kubelet/pods/1d1cd94a-5a5e-4b6c-a8c5-2c6c2ea0b4a1/volumes/example.com~pod-info-fuse/info")
	for _, server := range m.servers {
		for name, socket := range map[string]*os.File{"a pair of its own": ours, "the link": link, "the socket that listens": pods, "a file": file, "a directory": root} {
			m.try("serve by "+name, wire.Order{Kind: wire.Serve, Server: server.ID()}, socket)
			m.try("serve on a path by "+name, wire.Order{Kind: wire.Serve, Server: server.ID(), Mountpoint: "/mnt"}, socket)
			m.try("unmount by "+name, wire.Order{Kind: wire.Unmount, Server: server.ID(), Mountpoint: "/mnt"}, socket)
		}
	}
	containers := containers(m.clients)
	for _, client := range m.clients {
		id := client.ID()
		m.mu.Lock()
		generation, served := m.serves[id]
		m.mu.Unlock()
		if !served {
			continue
		}
		attach := func(what string, id volume.ID, generation uint64, pid int) {
			m.try("attach "+what, wire.Order{Kind: wire.Attach, Volume: id, Generation: generation, PID: pid})
		}
		for _, own := range containers[id] {
			good := wire.Order{Kind: wire.Attach, Volume: id, Generation: generation, PID: own}
			problem := m.order(good)
			for strings.Contains(problem, "too many orders") { // of the process that served before this one
				time.Sleep(time.Second)
				problem = m.order(good)
			}
			if problem != "" {
				m.log("attack: attach a volume where it belongs: %s", problem)
			} else {
				m.log("done: attach volume %s", id)
			}
			attach("a volume of another driver", other, generation, own)
			attach("another generation", id, generation+1, own)
			for _, server := range m.servers {
				attach("a server volume", server.ID(), generation, own)
			}
			for _, another := range m.clients {
				if another.PodUID != client.PodUID {
					attach("another pod's volume", another.ID(), generation, own)
				}
			}
			if _, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", own)); err == nil {
				m.log("attack succeeded: look at the descriptors of process %d", own)
			} else {
				m.log("attack refused: look at the descriptors of a program: %v", err)
			}
		}
		for another, pids := range containers {
			if other := recordOf(m.clients, another); other.PodUID != client.PodUID {
				for _, pid := range pids {
					attach("in another pod", id, generation, pid)
				}
			}
		}
		for name, pid := range map[string]int{"in this process": os.Getpid(), "in the first process": 1, "in no process": 1 << 22, "in a process before all": -1} {
			attach(name, id, generation, pid)
		}
		m.send(wire.Order{Kind: wire.Spent, Volume: id, Generation: generation}) // has no answer
	}
}

// garble sends what is no order, and orders that are longer than any.
func (m *orders) garble() {
	long := strings.Repeat("<", 13000) // of which Go's JSON would make six times as many bytes
	for _, text := range []string{
		"garbage", "{", "[]", `{"kind":7}`, `{"kind":"mount"}`, strings.Repeat(" ", packet.Max+1),
		`{"kind":"attach","volume":1,"ticket":1,"mountpoint":"/` + long + `"}`,
		`{"kind":"attach","volume":1,"ticket":2,"subtype":"` + long + `"}`,
	} {
		_ = unix.Sendmsg(m.by, []byte(text), nil, nil, 0)
	}
}

// flood orders more at once than can be done, of all kinds.
func (m *orders) flood() {
	ours, theirs, err := packet.Pair()
	if err != nil {
		m.log("attack: %v", err)
		return
	}
	defer ours.Close()
	defer theirs.Close()
	longest := "/" + strings.Repeat("<", wire.LongestPath-1)
	m.mu.Lock()
	serves := maps.Clone(m.serves)
	m.mu.Unlock()
	for i := range 1000 {
		id := volume.ID(i + 1)
		for _, client := range m.clients {
			m.send(wire.Order{Kind: wire.Attach, Volume: client.ID(), Generation: serves[client.ID()]})
		}
		if len(m.servers) > 0 && i%10 == 0 { // a child opens what comes with each of these, which takes the most time by far
			m.send(wire.Order{Kind: wire.Serve, Server: m.servers[i%len(m.servers)].ID(), Mountpoint: longest}, ours)
		}
		m.send(wire.Order{Kind: wire.Attach, Volume: id, Generation: 1, PID: os.Getpid(), Mountpoint: longest})
		m.send(wire.Order{Kind: wire.Spent, Volume: id})
		m.send(wire.Order{Kind: wire.Counts, Volume: id, Waiting: 1 << 30})
		m.send(wire.Order{Kind: wire.Hello})
	}
	for until := time.Now().Add(answerTimeout); time.Now().Before(until); { // of too many events, some are lost
		select {
		case <-m.send(wire.Order{Kind: wire.Hello}):
			return
		case <-time.After(time.Second):
		}
	}
	m.log("attack: the mounter does not answer after the flood")
}

func recordOf(all []volume.Record, id volume.ID) volume.Record {
	for _, record := range all {
		if record.ID() == id {
			return record
		}
	}
	return volume.Record{}
}

// containers lists processes that have a volume, one of each container.
func containers(clients []volume.Record) map[volume.ID][]int {
	found := map[volume.ID][]int{}
	paths, _ := filepath.Glob("/proc/[0-9]*/mountinfo")
	views := map[string]bool{}
	for _, path := range paths {
		text, _ := os.ReadFile(path)
		if views[string(text)] {
			continue // as another one of its mount namespace
		}
		views[string(text)] = true
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		for _, client := range clients {
			if strings.Contains(string(text), " /"+client.ID().String()+" ") && !strings.Contains(string(text), client.Dir) {
				found[client.ID()] = append(found[client.ID()], pid)
			}
		}
	}
	return found
}

// Ordering has each process that serves give orders of its own by the link that it was given, in
// the place of those of the driver: one that gets no processor for seconds is replaced.
func Ordering(files fuse.RawFileSystem, orders func()) fuse.RawFileSystem {
	return ordering{files.(whole), orders, &sync.Once{}}
}

type ordering struct {
	whole
	orders func()
	once   *sync.Once // a process may serve again
}

func (ordering) Hold(hold.Request) bool { return false }

func (ordering) Interrupted(uint64) {}

func (o ordering) Begin(hold.Answerer) (end func()) {
	go o.once.Do(o.orders)
	return func() {}
}
