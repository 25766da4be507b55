package survive

import "github.com/hanwen/go-fuse/v2/fuse"

// FileSystem answers the kernel's requests, in every process that serves, one after the
// other and for moments at the same time. What it needs to survive the change from one
// process to the next:
//
//   - A fresh process can answer for any node id: ids are computed, from the volume's id and
//     what the node is in it, and never handed out by a counter or kept in a table.
//   - There are no handles: Open and OpenDir leave Fh at 0, and Read and ReadDir know from
//     the node id and the offset what they are to return.
//   - A cache may be lost at any time. What a node id stands for does not depend on one.
//   - Lookup counts are nobody's: Forget does nothing.
//
// Some things are the same for every file system:
//
//   - All is read-only: a request that would change something is answered with EROFS.
//   - There are no extended attributes: ENOSYS, after which the kernel does not ask again.
//   - The kernel remembers where a symbolic link leads for as long as it knows the node id.
//     A link that is to lead elsewhere needs another one.
//   - It remembers names and attributes for as long as Lookup and GetAttr say. A listing has
//     names only: ReadDirPlus is not called.
//   - There are no locks: flock(2) and fcntl(2) get EOPNOTSUPP, since one that a process keeps
//     would be lost with it.
//
// It is called by several goroutines at the same time. It may also be a [VolumeMapper], a
// [NonBlocker], a [SizeVarier] and a [hold.Holder].
type FileSystem = fuse.RawFileSystem

// VolumeMapper is implemented by file systems whose nodes belong to volumes. Volumes are served in
// turn, so that the readers of one do not keep those of another waiting. Without it, all requests
// are answered in the order in which they come. [volume.Root] implements it.
type VolumeMapper interface {
	// VolumeOf returns the number of the volume that a node belongs to.
	VolumeOf(node uint64) (volume uint64)
}

// NonBlocker is implemented by file systems that answer some requests without any wait. Of the
// answers that may take long, one is given at a time, so that the others are never waited for, but
// for two cases: an answer that takes more than a second, and, before Linux 6.9 or of a name of
// more than 119 bytes, a second one at the same time. Without a NonBlocker, every answer may take
// long.
type NonBlocker interface {
	// NeverBlocks tells whether requests about a node are answered without any wait, but for files
	// that are in memory, such as those of the run directory: with names, the requests for names in
	// a directory (Lookup, ReadDir), and otherwise all others.
	NeverBlocks(node uint64, names bool) bool
}

// SizeVarier is implemented by file systems with files whose size depends on who asks. The kernel
// keeps what it needs of them to check permissions, so that an open asks for nothing else; that is
// so from Linux 6.1 to 7.2. On other kernels, every open asks for attributes.
//
// They are regular files in the directory of a volume, whose mode and owner never change, and
// Open sets FOPEN_DIRECT_IO. GetAttr answers for them also where there is no such volume. Lookup
// and GetAttr give their attributes no time of validity.
type SizeVarier interface {
	// VaryingSizes returns the numbers that these files have in each volume: see [volume.Node].
	VaryingSizes() (numbers []uint8)
}
