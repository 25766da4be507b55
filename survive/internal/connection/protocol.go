package connection

import (
	"errors"
	"fmt"
	"io"
	"log"
	"math"
	"unsafe"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/internal/devfuse"
)

// This file is all that touches go-fuse's ProtocolServer, which is marked
// experimental.

const (
	// requestSize is the least buffer that the kernel accepts for a read of /dev/fuse
	// (linux/fuse.h, FUSE_MIN_READ_BUFFER). It has room for all that this file system takes, and
	// for the largest write: without, a read fails (fs/fuse/dev.c, fuse_dev_do_read).
	requestSize = 8192
	// maxWrite is the size of the largest write, the least that can be agreed on (fs/fuse/inode.c,
	// process_init_reply). No write is ever answered with anything but EROFS. It holds for the
	// connection's whole life: a version with another size needs another format of Params.
	maxWrite = 4096

	// headerSize has room for the largest header of a request or a reply.
	headerSize = 1024

	outHeaderSize = int(unsafe.Sizeof(fuse.OutHeader{}))
	initInSize    = int(unsafe.Sizeof(fuse.InitIn{}))
)

// noExportSupport is FUSE_NO_EXPORT_SUPPORT (linux/fuse.h): a file must be looked up before
// it is opened. Otherwise a pod with CAP_DAC_READ_SEARCH could open the root, which lists
// every pod of the node, with open_by_handle_at(2) and its number. Protocol 7.40, of Linux
// 6.9.
const noExportSupport = 1 << 38

func (o Options) replySize() int { return o.MaxRead + headerSize }

// protocol decodes requests and encodes replies.
type protocol struct {
	Options
	fs     fuse.RawFileSystem
	report func(problem string)
	server *fuse.ProtocolServer
}

func newProtocol(fs fuse.RawFileSystem, o Options, report func(problem string)) protocol {
	p := protocol{Options: o, fs: fs, report: report}
	p.server = fuse.NewProtocolServer(fs, &fuse.MountOptions{
		MaxWrite:             o.MaxRead, // the kernel takes it for the unit of other transfers, too
		IDMappedMount:        true,      // for pods with hostUsers: false; Linux 6.12
		ExtraCapabilities:    noExportSupport,
		DisableReadDirPlus:   true, // for small directories: nothing to gain
		EnableSymlinkCaching: true,
		EnableLocks:          true,                       // they are refused
		Logger:               log.New(io.Discard, "", 0), // it reports the errors of callers
		PanicHandler:         p.panicked,
	})
	return p
}

// panicked makes an error of a panic: one request fails, and all others go on.
func (p protocol) panicked(reason any) fuse.Status {
	p.report(fmt.Sprintf("internal error while serving a request: %v", reason))
	return fuse.EIO
}

// handle answers a request. It returns the length of the reply, 0 when there
// is to be none.
func (p protocol) handle(request, reply [][]byte) int {
	if changes(request[0]) {
		return refuse(request[0], reply[0], fuse.EROFS)
	}
	if n, done := p.direct(request[0], reply[0]); done {
		return n
	}
	switch devfuse.Header(request[0]).Opcode {
	case devfuse.OpGetXAttr, devfuse.OpListXAttr:
		// There are no extended attributes, and after this answer the kernel does not ask
		// again. go-fuse would give it only if the caller's buffer fits into ours.
		return refuse(request[0], reply[0], fuse.ENOSYS)
	case devfuse.OpGetLk, devfuse.OpSetLk, devfuse.OpSetLkw:
		// A process that keeps a lock can end. Nor may the kernel keep locks, as it does for a file
		// system that does not ask for them: it keeps them with the inode (fs/fuse/file.c,
		// fuse_file_flock), and one that several volumes show would let a pod lock out others.
		return refuse(request[0], reply[0], fuse.Status(unix.EOPNOTSUPP))
	}
	n, status := p.indirect(request, reply)
	if status.Ok() {
		return n
	}
	// The request was too odd for the server to answer, but its sender waits.
	return refuse(request[0], reply[0], status)
}

// indirect has go-fuse's server answer.
func (p protocol) indirect(request, reply [][]byte) (n int, status fuse.Status) {
	return p.server.HandleRequest(request, reply)
}

// refuse writes a reply that consists of an error.
func refuse(request, reply []byte, status fuse.Status) int {
	if len(request) < 16 {
		return 0
	}
	return header(request, reply, status, 0)
}

// header writes the header of a reply, and returns the length of that and the body.
func header(request, reply []byte, status fuse.Status, body int) int {
	n := outHeaderSize + body
	*devfuse.Message[fuse.OutHeader](reply) = fuse.OutHeader{
		Length: uint32(n), Status: -int32(status), Unique: devfuse.Header(request).Unique,
	}
	return n
}

// initialise answers the connection's first request and returns what was
// agreed on.
func (p protocol) initialise(request, reply []byte) (n int, agreed Params, err error) {
	var in fuse.InitIn
	copy(devfuse.Bytes(&in), request)
	if in.Opcode != devfuse.OpInit {
		return 0, Params{}, fmt.Errorf("first request has opcode %d, want FUSE_INIT", in.Opcode)
	}
	n = p.handle([][]byte{request}, [][]byte{reply})
	var header fuse.OutHeader
	copy(devfuse.Bytes(&header), reply[:n])
	if header.Status != 0 {
		return n, Params{}, fmt.Errorf("FUSE_INIT with protocol %d.%d: %w", in.Major, in.Minor, unix.Errno(-header.Status))
	}
	var out fuse.InitOut
	copy(devfuse.Bytes(&out), reply[outHeaderSize:n])
	out.MaxWrite = maxWrite // go-fuse takes one size for reads and writes
	copy(reply[outHeaderSize:n], devfuse.Bytes(&out))
	return n, Params{
		Major: in.Major, Minor: in.Minor, MaxReadAhead: in.MaxReadAhead,
		// No server need know of the flag that is left out, and versions that do not can go
		// on with the connection.
		Flags:   out.Flags64() & in.Flags64() &^ noExportSupport,
		Options: p.Options,
	}, nil
}

// resume puts the server into the state that it had after initialise, in the
// process that did it: a FUSE_INIT that offers just what was agreed on, whose
// reply nobody is waiting for.
func (p protocol) resume(agreed Params) error {
	in := fuse.InitIn{
		Major: agreed.Major, Minor: agreed.Minor, MaxReadAhead: agreed.MaxReadAhead,
		Flags: uint32(agreed.Flags & math.MaxUint32), Flags2: uint32(agreed.Flags >> 32),
	}
	in.Length = uint32(initInSize)
	in.Opcode = devfuse.OpInit
	_, again, err := p.initialise(devfuse.Bytes(&in), make([]byte, p.replySize()))
	if err == nil && again.Flags != agreed.Flags {
		err = errors.New("this version does not know a feature that was agreed on with the kernel")
	}
	return err
}
