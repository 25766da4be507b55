package connection

import (
	"bytes"
	"encoding/binary"
	"testing"
	"unsafe"

	"github.com/hanwen/go-fuse/v2/fuse"

	"example.com/pod-info-fuse/internal/devfuse"
)

// constant is a file system whose answers do not depend on the time.
type constant struct {
	fuse.RawFileSystem
	status   fuse.Status
	panics   bool
	released int
}

func (c *constant) Lookup(_ <-chan struct{}, in *fuse.InHeader, name string, out *fuse.EntryOut) fuse.Status {
	out.NodeId, out.Generation, out.EntryValid = in.NodeId, uint64(len(name)), 3
	return c.status
}

func (c *constant) GetAttr(_ <-chan struct{}, in *fuse.GetAttrIn, out *fuse.AttrOut) fuse.Status {
	if c.panics {
		panic("as a bug would")
	}
	out.Ino, out.Mode, out.Size, out.AttrValid = in.NodeId, fuse.S_IFREG|0o444, 7, 9
	return c.status
}

func (c *constant) Open(_ <-chan struct{}, _ *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	out.OpenFlags = fuse.FOPEN_DIRECT_IO
	return c.status
}

func (c *constant) Read(_ <-chan struct{}, in *fuse.ReadIn, _ []byte) (fuse.ReadResult, fuse.Status) {
	return fuse.ReadResultData([]byte("content")[:min(7, in.Size)]), c.status
}

func (c *constant) Release(<-chan struct{}, *fuse.ReleaseIn) { c.released++ }

// request is a request of a kind, with a header as the kernel sends it.
func request[T any](code uint32, in T) []byte {
	packet := bytes.Clone(devfuse.Bytes(&in))
	binary.NativeEndian.PutUint32(packet[0:], uint32(len(packet)))
	binary.NativeEndian.PutUint32(packet[4:], code)
	binary.NativeEndian.PutUint64(packet[8:], 4711)
	binary.NativeEndian.PutUint64(packet[16:], 42)
	return packet
}

// named adds the name that a request is about.
func named(packet []byte, name string) []byte {
	packet = append(append(packet, name...), 0)
	binary.NativeEndian.PutUint32(packet, uint32(len(packet)))
	return packet
}

var direct = map[string][]byte{
	"LOOKUP":          named(request(devfuse.OpLookup, fuse.InHeader{}), "a name"),
	"GETATTR":         request(devfuse.OpGetAttr, fuse.GetAttrIn{}),
	"OPEN":            request(devfuse.OpOpen, fuse.OpenIn{}),
	"READ":            request(devfuse.OpRead, fuse.ReadIn{Size: 4096}),
	"READ of a part":  request(devfuse.OpRead, fuse.ReadIn{Size: 3}),
	"READ of nothing": request(devfuse.OpRead, fuse.ReadIn{}),
	"RELEASE":         request(devfuse.OpRelease, fuse.ReleaseIn{}),
}

// What is answered here is answered as go-fuse's server does.
func TestDirectAnswersAreThoseOfTheServer(t *testing.T) {
	for name, request := range direct {
		for _, status := range []fuse.Status{fuse.OK, fuse.EIO} {
			p := newProtocol(&constant{RawFileSystem: fuse.NewDefaultRawFileSystem(), status: status}, Default, func(problem string) { t.Error(problem) })
			if err := p.resume(Params{Major: 7, Minor: 31}); err != nil {
				t.Fatal(err)
			}
			got, want := bytes.Repeat([]byte{0xff}, Default.replySize()), make([]byte, Default.replySize())
			n, done := p.direct(request, got)
			length, failed := p.indirect([][]byte{request}, [][]byte{want})
			if !done || !failed.Ok() || !bytes.Equal(got[:n], want[:length]) {
				t.Errorf("%s, status %v:\n got %v %x\nwant %v %x", name, status, done, got[:n], failed, want[:length])
			}
		}
	}
}

func TestDirectAnswersAllocateNothing(t *testing.T) {
	fs := &constant{RawFileSystem: fuse.NewDefaultRawFileSystem()}
	p := newProtocol(fs, Default, func(problem string) { t.Error(problem) })
	reply := make([]byte, Default.replySize())
	for _, name := range []string{"GETATTR", "OPEN", "RELEASE"} { // READ is the file system's business
		if n := testing.AllocsPerRun(100, func() { p.direct(direct[name], reply) }); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
	if fs.released == 0 {
		t.Error("RELEASE does not get to the file system")
	}
}

func TestARequestThatIsNotWholeIsNotAnsweredDirectly(t *testing.T) {
	p := newProtocol(&constant{RawFileSystem: fuse.NewDefaultRawFileSystem()}, Default, func(string) {})
	for name, request := range direct {
		for length := 8; length < len(request); length++ {
			if _, done := p.direct(request[:length:length], make([]byte, Default.replySize())); done {
				t.Errorf("%s with %d bytes of %d", name, length, len(request))
			}
		}
	}
	whole := request(devfuse.OpRead, fuse.ReadIn{Size: uint32(Default.replySize())})
	if _, done := p.direct(whole, make([]byte, Default.replySize())); done {
		t.Error("a read of more than there is room for")
	}
}

func TestAPanicIsAnErrorOfOneRequest(t *testing.T) {
	var reported string
	p := newProtocol(&constant{RawFileSystem: fuse.NewDefaultRawFileSystem(), panics: true}, Default, func(problem string) { reported = problem })
	reply := make([]byte, Default.replySize())
	n, done := p.direct(direct["GETATTR"], reply)
	var header fuse.OutHeader
	copy(devfuse.Bytes(&header), reply[:n])
	if !done || n != int(unsafe.Sizeof(header)) || header.Unique != 4711 || header.Status != -int32(fuse.EIO) {
		t.Errorf("%v, %+v", done, header)
	}
	if reported == "" {
		t.Error("nobody is told")
	}
}
