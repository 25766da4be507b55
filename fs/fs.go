package fs

import (
	"github.com/hanwen/go-fuse/v2/fuse"

	"example.com/pod-info-fuse/volume"
)

// FS serves the volumes of a store.
type FS struct {
	fuse.RawFileSystem // answers ENOSYS to what is not defined here
	volumes            volume.Store
}

// New returns the file system of the volumes in a store.
func New(volumes volume.Store) *FS {
	return &FS{RawFileSystem: fuse.NewDefaultRawFileSystem(), volumes: volumes}
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
