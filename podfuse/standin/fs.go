// Package standin is what the unprivileged pair of pod-fuse does: it serves the stand-ins of client
// volumes, holds requests for volumes that no program serves, reads the connections of dead
// programs, and takes the requests of pods.
//
//	fs.go      what a stand-in looks like
//	who.go     whose view a process has: its container's, or the host's
//	look.go    when processes are looked at
//	outage.go  which requests wait for what, and when they are answered
//	dead.go    the connection of a program that has died
//	socket.go  the requests of pods
//	link.go    orders to the mounter, and its events
//
// A stand-in is an empty directory for the host, where it is what the kubelet makes volumes and
// sub-paths of. A container's process that asks for anything in it is held until the program's
// mount is in its place. All that this process knows it has from the mounter, which tells the next
// process the same, and from the kernel, which gives it the requests that are held.
package standin

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/internal/devfuse"
	"example.com/pod-info-fuse/podfuse"
	"example.com/pod-info-fuse/podfuse/wire"
	"example.com/pod-info-fuse/survive"
	"example.com/pod-info-fuse/survive/hold"
	"example.com/pod-info-fuse/survive/volume"
)

var (
	_ survive.FileSystem   = (*FileSystem)(nil)
	_ hold.Holder          = (*FileSystem)(nil)
	_ survive.VolumeMapper = (*FileSystem)(nil)
	_ survive.NonBlocker   = (*FileSystem)(nil)
)

// FileSystem has a directory for each client volume. It is a [survive.FileSystem], and a
// [hold.Holder].
type FileSystem struct {
	volume.Root
	layout         podfuse.Layout
	companionFiles []*os.File // of the mounter: the listening socket of pods, and the link
	report         func(problem string)
	self           string // the file with this process's cgroup; a test has none
	// requestTime is how long a client of the pods' socket may take for its request; a test sets
	// it.
	requestTime time.Duration

	service atomic.Pointer[service] // nil where this process does not serve

	mu       sync.Mutex             // guards what follows
	prefixes map[uint64][]volume.ID // of node ids
}

// New returns the file system of a driver. The site's descriptors are the mounter's: the
// listening socket of pods, and an end of a link.
func New(site survive.Site, layout podfuse.Layout) *FileSystem {
	return &FileSystem{
		Root: volume.NewRoot(site.Volumes), layout: layout, companionFiles: site.CompanionFiles, report: site.Report,
		self: "/proc/self/cgroup", requestTime: requestTime, prefixes: map[uint64][]volume.ID{},
	}
}

// A node id is that of a volume's directory (volume.Node), or of a name below it. These have the
// same upper bits, and then a hash of the parent's id and the name, whose last byte is not 0. The
// kernel keeps them, so that this can never change.
const hashBits = 24

func isBelow(node uint64) bool { return node&0xff != 0 && node != fuse.FUSE_ROOT_ID }

func nodeBelow(parent uint64, name string) uint64 {
	sum := sha256.Sum256(append(binary.BigEndian.AppendUint64(make([]byte, 0, 128), parent), name...))
	hash := uint64(sum[0])<<16 | uint64(sum[1])<<8 | uint64(max(sum[2], 1))
	return parent>>hashBits<<hashBits | hash
}

// VolumeOf returns what a node belongs to. Volumes are served in turn.
func (*FileSystem) VolumeOf(node uint64) uint64 { return node >> hashBits }

// NeverBlocks says that no answer waits for anything.
func (*FileSystem) NeverBlocks(uint64, bool) bool { return true }

// idsOf are the volumes that a node can be of, of which nearly always there is one.
func (f *FileSystem) idsOf(node uint64) []volume.ID {
	if !isBelow(node) {
		id, _ := volume.Split(node)
		return []volume.ID{id}
	}
	prefix := node >> hashBits
	f.mu.Lock()
	defer f.mu.Unlock()
	if ids := f.prefixes[prefix]; ids != nil {
		return ids
	}
	clear(f.prefixes) // volumes come and go
	all, err := f.layout.Clients().IDs()
	if err != nil {
		return nil
	}
	for _, id := range all {
		prefix := volume.Node(id, 0) >> hashBits
		f.prefixes[prefix] = append(f.prefixes[prefix], id)
	}
	return f.prefixes[prefix]
}

// record is the record of a node's volume.
func (f *FileSystem) record(node uint64) (record volume.Record, status fuse.Status) {
	status = fuse.Status(unix.ESTALE)
	for _, id := range f.idsOf(node) {
		if record, status = f.Record(volume.Node(id, 0)); status.Ok() {
			break
		}
	}
	return record, status
}

// Lookup finds a volume in the root, and any name in a volume: the kubelet makes sub-paths in it.
// The kernel keeps nothing, as the next one who asks may have to wait.
func (f *FileSystem) Lookup(cancel <-chan struct{}, header *fuse.InHeader, name string, out *fuse.EntryOut) fuse.Status {
	if header.NodeId == fuse.FUSE_ROOT_ID {
		status := f.Root.Lookup(cancel, header, name, out)
		out.AttrValid = 0
		return status
	}
	record, status := f.record(header.NodeId)
	if status.Ok() {
		record.Entry(0, out)
		out.NodeId = nodeBelow(header.NodeId, name)
		out.Attr = attributes(out.NodeId, record)
	}
	return status
}

// GetAttr answers stat(2).
func (f *FileSystem) GetAttr(cancel <-chan struct{}, in *fuse.GetAttrIn, out *fuse.AttrOut) fuse.Status {
	if in.NodeId == fuse.FUSE_ROOT_ID {
		return f.Root.GetAttr(cancel, in, out)
	}
	record, status := f.record(in.NodeId)
	if status.Ok() {
		out.Attr = attributes(in.NodeId, record)
	}
	return status
}

func attributes(node uint64, record volume.Record) fuse.Attr {
	attr := fuse.Attr{Ino: node, Mode: fuse.S_IFDIR | 0o555, Nlink: 2}
	attr.SetTimes(&record.Mounted, &record.Mounted, &record.Mounted)
	return attr
}

// ReadDir lists the root; all else is empty.
func (f *FileSystem) ReadDir(cancel <-chan struct{}, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	if in.NodeId == fuse.FUSE_ROOT_ID {
		return f.Root.ReadDir(cancel, in, out)
	}
	volume.Dots(in, out)
	return fuse.OK
}

// held are the operations that are held. Attributes have no time of validity, so that whatever path
// leads into a stand-in, the kernel first asks for the attributes of its root directory. It has no
// lock then. While a LOOKUP is under way, or what would change a directory, nothing can be mounted
// on the directory, wherever it is seen (fs/namespace.c, do_lock_mount): it would be held for ever.
// So these are answered at once. Who got so far is held in the next directory.
//
// Requests on open directories are the host's: nobody else could open them.
var held = [...]bool{
	devfuse.OpGetAttr: true, devfuse.OpOpen: true, devfuse.OpStatFS: true, devfuse.OpGetXAttr: true, devfuse.OpListXAttr: true,
	devfuse.OpOpenDir: true, devfuse.OpAccess: true, devfuse.OpStatX: true,
}

// Hold holds what a container's process asks by a path: the kernel walks it again when the answer
// is ESTALE.
func (f *FileSystem) Hold(r hold.Request) bool {
	s := f.service.Load()
	if s == nil || r.Node == fuse.FUSE_ROOT_ID || int(r.Opcode) >= len(held) || !held[r.Opcode] {
		return false
	}
	for _, id := range f.idsOf(r.Node) {
		if record, status := f.Record(volume.Node(id, 0)); status.Ok() && s.hold(record, r) {
			return true
		}
	}
	return false
}

// Interrupted forgets a request.
func (f *FileSystem) Interrupted(id uint64) {
	if s := f.service.Load(); s != nil {
		s.outages.interrupted(caller{s.standins, id})
	}
}

// Begin is the beginning of all that this process does beside answering at once.
func (f *FileSystem) Begin(a hold.Answerer) (end func()) {
	s := &service{fs: f, standins: standins{a}}
	var random [4]byte
	_, _ = rand.Read(random[:])
	s.tickets.Store(uint64(binary.NativeEndian.Uint32(random[:]))<<32 | 1)
	s.begin()
	f.service.Store(s)
	return func() {
		f.service.Store(nil)
		s.end()
	}
}

// standins are the connection of the stand-ins.
type standins struct{ hold.Answerer }

func (s standins) fail(id uint64, status fuse.Status) { s.Fail(id, status) }

// service is this process's time of serving.
type service struct {
	fs        *FileSystem
	standins  standins
	processes *processes
	looks     looks // at processes of pods
	urgent    looks // at processes of the host, and programs that are to serve
	signals   looks // at threads that were sent a signal, which no lock of mounts delays
	outages   *outages
	dead      *connections
	link      *link     // nil: there is none
	requests  *requests // nil: there is none
	tickets   atomic.Uint64
	hello     uint64 // the ticket of the first order
}

func (s *service) log(format string, args ...any) { s.fs.report(fmt.Sprintf(format, args...)) }

func (s *service) begin() {
	var err error
	if s.processes, err = newProcesses("/proc", s.fs.self, s.fs.layout.FS(), s.fs.layout.Servers()); err != nil {
		s.log("look at processes: %v; nobody waits for a program that does not serve yet", err)
	}
	if _, err := s.processes.cgroup("1"); err != nil {
		s.log("%v: processes are hidden, as by the mount option hidepid of /proc; nobody whom this process does not see waits, and he finds an empty directory", err)
	}
	s.looks.Most, s.urgent.Most, s.signals.Most = mostLooks, mostLooks, mostLooks
	s.outages = newOutages(s)
	s.dead = &connections{service: s, volumes: map[volume.ID][]*dead{}}
	if len(s.fs.companionFiles) < 2 {
		s.log("there is no mounter: no program can serve a volume; the next call-out starts one")
		s.outages.told()
		return
	}
	s.requests = newRequests(s)
	if s.link, err = openLink(s.fs.companionFiles[1]); err != nil {
		s.log("%v", err)
		s.requests.close(errTemporary)
	} else {
		s.hello = s.ticket()
		s.link.begin(s.event, s.gone)
		s.order(wire.Order{Kind: wire.Hello, Ticket: s.hello})
	}
	if err := s.requests.open(s.fs.companionFiles[0]); err != nil {
		s.log("%v", err)
	}
}

// end leaves everything to the process that serves next.
func (s *service) end() {
	s.dead.end() // before the outages forget who waits, and a thread would count as killed
	s.outages.end()
	if s.requests != nil {
		s.requests.end()
	}
	if s.link != nil {
		s.link.close()
	}
}

// event is something that the mounter tells.
func (s *service) event(e wire.Event, file *os.File) {
	if file != nil && e.Kind != wire.Died {
		file.Close()
	}
	switch e.Kind {
	case wire.ServedNow:
		s.outages.isServed(e.Volume, e.Generation)
	case wire.Died:
		if file != nil {
			s.dead.add(e.Volume, e.Generation, e.Since, file)
		} else {
			s.outages.died(e.Volume, e.Generation, e.Since, nil)
			s.spent(e.Volume, e.Generation) // there may have been no room for it here
		}
	case wire.Attached:
		s.outages.attached(e)
	case wire.Done:
		if e.Ticket == s.hello {
			s.outages.told()
		}
		s.requests.done(e)
	case wire.Forgotten:
		s.outages.forgotten(e.Volume)
		s.dead.forget(e.Volume)
	}
}

// gone is called when there is no mounter any more.
func (s *service) gone(err error) {
	s.log("the mounter is gone (%v): programs that serve go on, and nobody else can; the next call-out starts another one", err)
	s.outages.told()
	s.outages.mute()
	s.requests.close(errTemporary)
}

func (s *service) ticket() uint64 { return s.tickets.Add(1) }

func (s *service) order(order wire.Order) {
	if s.link != nil {
		s.link.send(order)
	}
}

func (s *service) spent(id volume.ID, generation uint64) {
	s.order(wire.Order{Kind: wire.Spent, Volume: id, Generation: generation})
}

// timeout reads how long an outage of a volume is waited for.
func (s *service) timeout(id volume.ID) (time.Duration, error) {
	record, err := s.fs.layout.Clients().Get(id)
	if err != nil {
		return podfuse.DefaultWait, err
	}
	attributes, err := podfuse.AttributesOf(record)
	if err != nil {
		return podfuse.DefaultWait, err
	}
	return attributes.Wait, nil
}

// isOwn tells whether a thread is of a container whose program serves a volume.
func (s *service) isOwn(id volume.ID, thread uint32) bool {
	servers, _ := s.processes.servers(number(thread))
	return slices.ContainsFunc(servers, func(server volume.ID) bool {
		record, err := s.fs.layout.ServerVolumes().Get(server)
		if err != nil {
			return false
		}
		client, err := podfuse.Client(record)
		return err == nil && client == id
	})
}
