package daemon

import (
	"runtime"
	"runtime/debug"
	"time"
)

// memory gives back to the system what a load has left. Nothing of that is needed any
// more, but the runtime would keep it: garbage is collected when there is more of it,
// and of what is free, a part is kept.
type memory struct {
	kept      uint64 // bytes that the runtime had after the last time
	allocated uint64 // bytes, ever, when looked at last
}

const (
	// looks is how often it is looked at, so that a minute after a load all is as it
	// was before.
	looks = 20 * time.Second
	// calmGrowth is what a process allocates between two looks when it serves nothing
	// but open, read and close: nothing, but for the standby's signs of life.
	calmGrowth = 256 << 10
	// worthwhile is what must have come together. To collect it takes a millisecond.
	worthwhile = 256 << 10
)

// look gives back what there is, if the load is over.
func (m *memory) look() {
	kept, allocated := usage()
	calm := allocated-m.allocated < calmGrowth
	m.allocated = allocated
	if calm && kept > m.kept+worthwhile {
		debug.FreeOSMemory()
		m.kept, m.allocated = usage()
	}
}

// usage returns how much memory the runtime has from the system, and how much it has
// allocated so far, in bytes. Package runtime/metrics would tell without stopping the
// program until both workers have let it, but would cost every call-out 0.1 ms of start-up.
func usage() (kept, allocated uint64) {
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.Sys - stats.HeapReleased, stats.TotalAlloc
}
