package fs

import (
	"slices"
	"sync"

	"example.com/pod-info-fuse/facts"
)

// version is a version of a fact, with its content.
type version struct {
	fact    facts.Fact
	content []byte
}

// versions keeps what was looked up until it is opened, because it may be replaced
// in between. Only a cache: what is not in it is read again.
type versions struct {
	mu    sync.Mutex // guards what follows
	kept  []kept     // the oldest first
	bytes int        // of all contents
}

type kept struct {
	version
	node    uint64
	lookups int // that have not been followed by an open
}

// maxVersions is the most that is kept, in bytes: sixteen of the largest facts. Of
// empty ones, each counts as overhead.
const (
	maxVersions = 16 * facts.MaxSize
	overhead    = 256
)

func (v *versions) put(new version) {
	v.mu.Lock()
	defer v.mu.Unlock()
	node := factNode(new.fact)
	if i := v.find(node); i >= 0 {
		v.kept[i].lookups++
		return
	}
	v.kept = append(v.kept, kept{new, node, 1})
	v.bytes += len(new.content) + overhead
	for v.bytes > maxVersions {
		v.remove(0)
	}
}

func (v *versions) get(node uint64) (version, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if i := v.find(node); i >= 0 {
		return v.kept[i].version, true
	}
	return version{}, false
}

// drop says that a version was opened.
func (v *versions) drop(node uint64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if i := v.find(node); i >= 0 {
		if v.kept[i].lookups--; v.kept[i].lookups <= 0 {
			v.remove(i)
		}
	}
}

func (v *versions) find(node uint64) int {
	for i := len(v.kept) - 1; i >= 0; i-- {
		if v.kept[i].node == node {
			return i
		}
	}
	return -1
}

func (v *versions) remove(i int) {
	v.bytes -= len(v.kept[i].content) + overhead
	v.kept = slices.Delete(v.kept, i, i+1) // which also forgets the last content
}
