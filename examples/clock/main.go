// A call-out lives too briefly to follow the limits of its cgroup, and the serving processes
// leave it.
//
//go:debug containermaxprocs=0
//go:debug updatemaxprocs=0

// Command clock is a FlexVolume driver that tells pods the time: each volume has one file,
// time, with the moment in which it is read.
package main

import (
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"example.com/pod-info-fuse/survive"
	"example.com/pod-info-fuse/survive/command"
	"example.com/pod-info-fuse/survive/volume"
)

// version is replaced by the linker: go build -ldflags '-X main.version=1.2.3'
var version = "0.0.0-dev"

func main() {
	command.Program{
		Driver: driver(),
		Name:   "example.com/clock",
		About:  "clock is a FlexVolume driver that tells pods the time.",
	}.Main()
}

func driver() survive.Driver {
	return survive.Driver{
		Program: "clock",
		Version: version,
		FileSystem: func(site survive.Site) survive.FileSystem {
			return &clock{volume.NewRoot(site.Volumes)}
		},
	}
}

// clock is the file system: below its root, a directory for each volume.
type clock struct{ volume.Root }

// A volume has one file. Its number never changes: the kernel remembers it.
const (
	timeName   = "time"
	timeNumber = 1
)

func isTime(node uint64) bool {
	_, number := volume.Split(node)
	return number == timeNumber && node != fuse.FUSE_ROOT_ID
}

// content always has the same length.
func content() string { return time.Now().UTC().Format("2006-01-02T15:04:05.000000000Z\n") }

func attributes(node uint64) fuse.Attr {
	return fuse.Attr{Ino: node, Mode: fuse.S_IFREG | 0o444, Nlink: 1, Size: uint64(len(content()))}
}

// Lookup finds the file in a volume, and the volume in the root.
func (c *clock) Lookup(cancel <-chan struct{}, header *fuse.InHeader, name string, out *fuse.EntryOut) fuse.Status {
	if header.NodeId == fuse.FUSE_ROOT_ID {
		return c.Root.Lookup(cancel, header, name, out)
	}
	record, status := c.Record(header.NodeId)
	if status.Ok() && name != timeName {
		status = fuse.ENOENT
	}
	if status.Ok() {
		record.Entry(timeNumber, out)
		out.Attr = attributes(out.NodeId)
	}
	return status
}

// GetAttr answers stat(2).
func (c *clock) GetAttr(cancel <-chan struct{}, in *fuse.GetAttrIn, out *fuse.AttrOut) fuse.Status {
	if !isTime(in.NodeId) {
		return c.Root.GetAttr(cancel, in, out)
	}
	out.Attr = attributes(in.NodeId)
	return fuse.OK
}

// Open has the kernel ask at every read: cached time would be out of date.
func (*clock) Open(_ <-chan struct{}, _ *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	out.OpenFlags = fuse.FOPEN_DIRECT_IO | fuse.FOPEN_NOFLUSH
	return fuse.OK
}

// Read needs no handle: the offset says it all.
func (*clock) Read(_ <-chan struct{}, in *fuse.ReadIn, _ []byte) (fuse.ReadResult, fuse.Status) {
	now := content()
	return fuse.ReadResultData([]byte(now[min(in.Offset, uint64(len(now))):])), fuse.OK
}

// ReadDir lists the root or a volume, from the offset on.
func (c *clock) ReadDir(cancel <-chan struct{}, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	if in.NodeId == fuse.FUSE_ROOT_ID {
		return c.Root.ReadDir(cancel, in, out)
	}
	if volume.Dots(in, out) && in.Offset <= volume.FirstOffset {
		id, _ := volume.Split(in.NodeId)
		out.AddDirEntry(fuse.DirEntry{Name: timeName, Mode: fuse.S_IFREG, Ino: volume.Node(id, timeNumber), Off: volume.FirstOffset + 1})
	}
	return fuse.OK
}
