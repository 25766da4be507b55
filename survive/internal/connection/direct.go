package connection

import (
	"bytes"
	"unsafe"

	"github.com/hanwen/go-fuse/v2/fuse"

	"example.com/pod-info-fuse/internal/devfuse"
)

// direct answers the requests of a lookup, an open, a read and a close. There are more of them
// than of all others, and go-fuse's server allocates a kilobyte for each, which makes
// garbage to collect while readers wait. done says that the request was one of these, and
// well formed.
func (p protocol) direct(request, reply []byte) (n int, done bool) {
	defer func() {
		if reason := recover(); reason != nil {
			n, done = refuse(request, reply, p.panicked(reason)), true
		}
	}()
	var (
		body   = reply[outHeaderSize:]
		size   int // of the body
		status fuse.Status
	)
	switch devfuse.Header(request).Opcode {
	case devfuse.OpLookup:
		in, out := devfuse.Message[fuse.InHeader](request), devfuse.Message[fuse.EntryOut](body)
		if in == nil || out == nil {
			return 0, false
		}
		name, _, whole := bytes.Cut(request[unsafe.Sizeof(*in):], []byte{0})
		if !whole {
			return 0, false
		}
		*out = fuse.EntryOut{}
		status, size = p.fs.Lookup(nil, in, string(name), out), int(unsafe.Sizeof(*out))
	case devfuse.OpGetAttr:
		in, out := devfuse.Message[fuse.GetAttrIn](request), devfuse.Message[fuse.AttrOut](body)
		if in == nil || out == nil {
			return 0, false
		}
		*out = fuse.AttrOut{}
		status, size = p.fs.GetAttr(nil, in, out), int(unsafe.Sizeof(*out))
	case devfuse.OpOpen:
		in, out := devfuse.Message[fuse.OpenIn](request), devfuse.Message[fuse.OpenOut](body)
		if in == nil || out == nil {
			return 0, false
		}
		*out = fuse.OpenOut{}
		status, size = p.fs.Open(nil, in, out), int(unsafe.Sizeof(*out))
	case devfuse.OpRead:
		in := devfuse.Message[fuse.ReadIn](request)
		if in == nil || int64(in.Size) > int64(len(body)) {
			return 0, false
		}
		status, size = p.read(in, body[:in.Size])
	case devfuse.OpRelease:
		in := devfuse.Message[fuse.ReleaseIn](request)
		if in == nil {
			return 0, false
		}
		p.fs.Release(nil, in)
	default:
		return 0, false
	}
	if !status.Ok() {
		return refuse(request, reply, status), true
	}
	return header(request, reply, fuse.OK, size), true
}

func (p protocol) read(in *fuse.ReadIn, buffer []byte) (fuse.Status, int) {
	result, status := p.fs.Read(nil, in, buffer)
	if !status.Ok() {
		return status, 0
	}
	defer result.Done()
	content, status := result.Bytes(buffer)
	return status, copy(buffer, content)
}
