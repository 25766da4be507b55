// Command killer is a driver for tests, whose file system has errors: each volume has a file that
// can be read, and others whose reads end the process, or keep it waiting.
package main

import (
	"os"
	"runtime/debug"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"example.com/pod-info-fuse/survive"
	"example.com/pod-info-fuse/survive/command"
	"example.com/pod-info-fuse/survive/volume"
)

// version is replaced by the linker.
var version = "0.0.0-dev"

func main() {
	command.Program{
		Driver: survive.Driver{
			Program:    "killer",
			Version:    version,
			FileSystem: func(site survive.Site) survive.FileSystem { return &killer{volume.NewRoot(site.Volumes)} },
		},
		Name:  "example.com/killer",
		About: "killer is a driver for tests.",
		// The configuration is where the log goes.
		Configure: func(configuration []byte) (survive.Settings, error) {
			return survive.Settings{Log: string(configuration)}, nil
		},
	}.Main()
}

// killer is the file system. A process that answers a read of a file calls its function first.
type killer struct{ volume.Root }

var files = []struct {
	name string
	read func()
}{
	1: {"good", func() {}},
	2: {"exit", func() { os.Exit(3) }},
	3: {"panic", func() {
		go func() { panic("a file that panics\nwas read \x1b[31m") }()
		time.Sleep(time.Minute)
	}},
	4: {"overflow", func() {
		debug.SetMaxStack(64 << 20) // a usual one takes seconds to fill
		panic(overflow(0))
	}},
	5: {"slow", func() { time.Sleep(8 * time.Second) }},
}

func overflow(depth int) int {
	if depth < 0 {
		return depth
	}
	return overflow(depth+1) + 1
}

const content = "content\n"

func attributes(node uint64) fuse.Attr {
	return fuse.Attr{Ino: node, Mode: fuse.S_IFREG | 0o444, Nlink: 1, Size: uint64(len(content))}
}

func isFile(node uint64) bool {
	_, number := volume.Split(node)
	return number != 0 && node != fuse.FUSE_ROOT_ID
}

func (k *killer) Lookup(cancel <-chan struct{}, header *fuse.InHeader, name string, out *fuse.EntryOut) fuse.Status {
	if header.NodeId == fuse.FUSE_ROOT_ID {
		return k.Root.Lookup(cancel, header, name, out)
	}
	record, status := k.Record(header.NodeId)
	if !status.Ok() {
		return status
	}
	for number, file := range files {
		if file.name == name && number > 0 {
			record.Entry(uint8(number), out)
			out.Attr = attributes(out.NodeId)
			return fuse.OK
		}
	}
	return fuse.ENOENT
}

func (k *killer) GetAttr(cancel <-chan struct{}, in *fuse.GetAttrIn, out *fuse.AttrOut) fuse.Status {
	if !isFile(in.NodeId) {
		return k.Root.GetAttr(cancel, in, out)
	}
	out.Attr = attributes(in.NodeId)
	return fuse.OK
}

func (*killer) Open(_ <-chan struct{}, _ *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	out.OpenFlags = fuse.FOPEN_DIRECT_IO | fuse.FOPEN_NOFLUSH
	return fuse.OK
}

func (*killer) Read(_ <-chan struct{}, in *fuse.ReadIn, _ []byte) (fuse.ReadResult, fuse.Status) {
	if _, number := volume.Split(in.NodeId); in.Offset == 0 {
		files[number].read()
	}
	return fuse.ReadResultData([]byte(content[min(in.Offset, uint64(len(content))):])), fuse.OK
}
