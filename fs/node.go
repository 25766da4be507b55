package fs

import (
	"github.com/hanwen/go-fuse/v2/fuse"

	"example.com/pod-info-fuse/volume"
)

// A node id is a volume's id and the kind of the node in the volume. The root
// has the id that FUSE gives it, 1: kind 1 of volume 0, which does not exist.
const kindBits = 4

type kind uint64

const (
	directory kind = iota
	podUID
	podNodename
	pod
	pid
)

func nodeID(id volume.ID, k kind) uint64 { return uint64(id)<<kindBits | uint64(k) }

func split(node uint64) (volume.ID, kind) {
	return volume.ID(node >> kindBits), kind(node & (1<<kindBits - 1))
}

// entry is a name in a volume's directory.
type entry struct {
	name string
	kind kind
	mode uint32 // type and permissions
}

// entries are the names in a volume's directory, in the order in which they
// are listed.
var entries = []entry{
	{"pod.uid", podUID, fuse.S_IFREG | 0o444},
	{"pod.nodename", podNodename, fuse.S_IFREG | 0o444},
	{"pod", pod, fuse.S_IFREG | 0o444},
	{"pid", pid, fuse.S_IFLNK | 0o777},
}

const pidTarget = "pod"

func entryByName(name string) (entry, bool) {
	for _, e := range entries {
		if e.name == name {
			return e, true
		}
	}
	return entry{}, false
}

func entryByKind(k kind) (entry, bool) {
	for _, e := range entries {
		if e.kind == k {
			return e, true
		}
	}
	return entry{}, false
}

// dynamic tells whether the content of a file differs from read to read.
func (k kind) dynamic() bool { return k == pod || k == podNodename }
