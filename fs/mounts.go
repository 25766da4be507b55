package fs

import (
	"sync/atomic"
	"time"

	"example.com/pod-info-fuse/survive/volume"
)

// mounts are the times at which volumes were mounted, of those that were asked for last. A stat of
// a live file needs nothing else of the record, and costs no read of it and no garbage.
//
// A directory that is mounted for another pod has the same id and another time. The kernel looks
// its files up before it asks for their attributes, and the answer to that is noted.
type mounts [64]atomic.Pointer[mounted]

type mounted struct {
	id volume.ID
	at time.Time
}

func (m *mounts) of(node uint64) (at time.Time, known bool) {
	id, _ := volume.Split(node)
	if last := m[id%volume.ID(len(m))].Load(); last != nil && last.id == id {
		return last.at, true
	}
	return time.Time{}, false
}

func (m *mounts) note(node uint64, at time.Time) {
	id, _ := volume.Split(node)
	if was, known := m.of(node); !known || !was.Equal(at) {
		m[id%volume.ID(len(m))].Store(&mounted{id, at})
	}
}
