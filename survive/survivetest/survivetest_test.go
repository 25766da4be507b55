package survivetest

import (
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"example.com/pod-info-fuse/survive"
	"example.com/pod-info-fuse/survive/volume"
)

// sound is a file system with one file in each volume, as long as its pod's name.
type sound struct{ volume.Root }

const file = 1

func newSound(site survive.Site) survive.FileSystem { return &sound{volume.NewRoot(site.Volumes)} }

func (s *sound) Lookup(cancel <-chan struct{}, in *fuse.InHeader, name string, out *fuse.EntryOut) fuse.Status {
	if in.NodeId == fuse.FUSE_ROOT_ID {
		return s.Root.Lookup(cancel, in, name, out)
	}
	record, status := s.Record(in.NodeId)
	if !status.Ok() || name != "file" {
		return fuse.ENOENT
	}
	record.Entry(file, out)
	s.attributes(out.NodeId, &out.Attr)
	return fuse.OK
}

func (s *sound) attributes(node uint64, attr *fuse.Attr) {
	*attr = fuse.Attr{Ino: node, Mode: fuse.S_IFREG | 0o444, Nlink: 1, Size: uint64(len(text))}
}

func (s *sound) GetAttr(cancel <-chan struct{}, in *fuse.GetAttrIn, out *fuse.AttrOut) fuse.Status {
	if _, number := volume.Split(in.NodeId); in.NodeId == fuse.FUSE_ROOT_ID || number != file {
		return s.Root.GetAttr(cancel, in, out)
	}
	s.attributes(in.NodeId, &out.Attr)
	return fuse.OK
}

func (s *sound) ReadDir(cancel <-chan struct{}, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	if in.NodeId == fuse.FUSE_ROOT_ID {
		return s.Root.ReadDir(cancel, in, out)
	}
	if volume.Dots(in, out) && in.Offset <= volume.FirstOffset {
		out.AddDirEntry(fuse.DirEntry{Name: "file", Mode: fuse.S_IFREG, Ino: in.NodeId | file, Off: volume.FirstOffset + 1})
	}
	return fuse.OK
}

func (s *sound) Open(<-chan struct{}, *fuse.OpenIn, *fuse.OpenOut) fuse.Status { return fuse.OK }

var text = strings.Repeat("what does not change\n", 2000)

func (s *sound) Read(_ <-chan struct{}, in *fuse.ReadIn, _ []byte) (fuse.ReadResult, fuse.Status) {
	from := min(int(in.Offset), len(text))
	return fuse.ReadResultData([]byte(text[from:min(from+int(in.Size), len(text))])), fuse.OK
}

func TestASoundFileSystemPasses(t *testing.T) {
	Test{Driver: survive.Driver{FileSystem: newSound}}.Run(t)
}

// counted hands out numbers of nodes in the order in which it is asked for them.
type counted struct {
	sound
	mu    sync.Mutex
	nodes []uint64
}

func (c *counted) Lookup(cancel <-chan struct{}, in *fuse.InHeader, name string, out *fuse.EntryOut) fuse.Status {
	status := c.sound.Lookup(cancel, in, name, out)
	if status.Ok() && in.NodeId != fuse.FUSE_ROOT_ID {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.nodes = append(c.nodes, out.NodeId)
		out.NodeId = fuse.FUSE_ROOT_ID + uint64(len(c.nodes))
	}
	return status
}

func (c *counted) GetAttr(cancel <-chan struct{}, in *fuse.GetAttrIn, out *fuse.AttrOut) fuse.Status {
	c.mu.Lock()
	defer c.mu.Unlock()
	if at := in.NodeId - fuse.FUSE_ROOT_ID - 1; at < uint64(len(c.nodes)) {
		in.NodeId = c.nodes[at]
	}
	return c.sound.GetAttr(cancel, in, out)
}

// handed gives a handle to who opens a file, and reads by that.
type handed struct {
	sound
	mu    sync.Mutex
	files uint64
}

func (h *handed) Open(_ <-chan struct{}, _ *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.files++
	out.Fh = h.files
	return fuse.OK
}

func (h *handed) Read(cancel <-chan struct{}, in *fuse.ReadIn, buffer []byte) (fuse.ReadResult, fuse.Status) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if in.Fh == 0 || in.Fh > h.files {
		return nil, fuse.EBADF
	}
	return h.sound.Read(cancel, in, buffer)
}

// restless is modified whenever it is asked for its attributes.
type restless struct{ sound }

func (r *restless) GetAttr(cancel <-chan struct{}, in *fuse.GetAttrIn, out *fuse.AttrOut) fuse.Status {
	status := r.sound.GetAttr(cancel, in, out)
	now := time.Now()
	out.SetTimes(nil, &now, &now)
	return status
}

func TestStateIsFound(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("to mount needs root")
	}
	for name, row := range map[string]struct {
		make func(survive.Site) survive.FileSystem
		want string
	}{
		"numbers by a counter": {func(s survive.Site) survive.FileSystem { return &counted{sound: sound{volume.NewRoot(s.Volumes)}} }, "stale"},
		"handles":              {func(s survive.Site) survive.FileSystem { return &handed{sound: sound{volume.NewRoot(s.Volumes)}} }, "has a handle"},
		"times of the stat":    {func(s survive.Site) survive.FileSystem { return &restless{sound{volume.NewRoot(s.Volumes)}} }, "Times"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			problems := strings.Join(Test{Driver: survive.Driver{FileSystem: row.make}}.problems(t), "\n")
			if !strings.Contains(problems, row.want) {
				t.Errorf("%q", problems)
			}
		})
	}
}
