package fs

import (
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/facts"
	"example.com/pod-info-fuse/volume"
)

// FS serves the volumes of a store.
type FS struct {
	fuse.RawFileSystem // answers ENOSYS to what is not defined here
	records            records
	threads            threads
	facts              facts.Dir

	// Store puts a file's content into the kernel's page cache. Whoever serves the
	// file system sets it before.
	Store func(node uint64, content []byte) error
	// Report is told what is left out of the facts, once for each reason.
	Report func(problem string)

	versions versions
	storing  storing
	listing  listing
	told     told
}

// New returns the file system of the volumes in a store, and of the facts in a
// directory, "" for none.
func New(volumes volume.Store, factsDir string) *FS {
	return &FS{
		RawFileSystem: fuse.NewDefaultRawFileSystem(), records: records{volumes: volumes}, facts: FactsDir(factsDir),
		Store:   func(uint64, []byte) error { return unix.ENOTCONN },
		Report:  func(string) {},
		storing: storing{slot: make(chan struct{}, 1)},
	}
}

// FactsDir is a directory of facts, as the file system reads it.
func FactsDir(path string) facts.Dir {
	return facts.Dir{Path: path, Reserved: isReserved}
}

// isReserved tells whether a fact would have the name of an entry.
func isReserved(name string) bool {
	_, taken := entryByName(factPrefix + name)
	return taken
}

// String is the name that go-fuse gives the file system in messages.
func (*FS) String() string { return "pod-info-fuse" }

// StatFs tells that there is nothing to store here. Monitoring asks.
func (*FS) StatFs(_ <-chan struct{}, _ *fuse.InHeader, out *fuse.StatfsOut) fuse.Status {
	*out = fuse.StatfsOut{Bsize: 4096, Frsize: 4096, NameLen: 255}
	return fuse.OK
}

// Flush tells the kernel to stop asking at every close(2): there is nothing
// to flush.
func (*FS) Flush(<-chan struct{}, *fuse.FlushIn) fuse.Status { return fuse.ENOSYS }
