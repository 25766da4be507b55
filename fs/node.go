package fs

import (
	"slices"

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
	podName
	podNamespace
	podServiceAccount
	volumeName
	nodeKernel
	nodeBootID
	nodeArch

	// nodeFact is a fact of the operator's. Its node is the same in every volume,
	// and has the id of a version in the place of a volume's; see fact.go.
	nodeFact kind = 1<<kindBits - 1
)

func nodeID(id volume.ID, k kind) uint64 { return uint64(id)<<kindBits | uint64(k) }

func split(node uint64) (volume.ID, kind) {
	return volume.ID(node >> kindBits), kind(node & (1<<kindBits - 1))
}

// VolumeOf returns the volume of a node, and in its place the version of a fact, which
// has none.
func (*FS) VolumeOf(node uint64) uint64 { return node >> kindBits }

// IsPrompt tells whether a node is opened and read without any wait but for a
// record. The operator's facts are not: they may be on any file system.
func (*FS) IsPrompt(node uint64) bool { return !isFact(node) }

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
	// The others are in the volumes whose record says so.
	{volume.FactPodName, podName, fuse.S_IFREG | 0o444},
	{volume.FactPodNamespace, podNamespace, fuse.S_IFREG | 0o444},
	{volume.FactServiceAccount, podServiceAccount, fuse.S_IFREG | 0o444},
	{volume.FactVolumeName, volumeName, fuse.S_IFREG | 0o444},
	{volume.FactKernel, nodeKernel, fuse.S_IFREG | 0o444},
	{volume.FactBootID, nodeBootID, fuse.S_IFREG | 0o444},
	{volume.FactArch, nodeArch, fuse.S_IFREG | 0o444},
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

// in tells whether the volume of a record has the entry.
func (e entry) in(record volume.Record) bool {
	return e.kind < podName || slices.Contains(record.Facts, e.name)
}

// dynamic tells whether the content of a file differs from read to read.
func (k kind) dynamic() bool { return k == pod || k == podNodename }
