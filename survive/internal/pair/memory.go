package pair

import (
	"runtime"
	"runtime/debug"
	"time"
)

// memory gives memory back to the system after a load. The runtime would keep it: it collects
// garbage only when there is more, and keeps a part of the free memory.
type memory struct {
	kept      uint64 // bytes that the runtime had after the last time
	allocated uint64 // bytes, ever, when looked at last
}

const (
	// looks is the time between two looks, so that a minute after a load all is as it was
	// before.
	looks = 20 * time.Second
	// calmGrowth is the most that a process allocates between two looks in calm times: open,
	// read and close need nothing, but the standby's signs of life do.
	calmGrowth = 256 << 10
	// worthwhile is the least to give back. A collection takes a millisecond.
	worthwhile = 256 << 10
)

// look gives memory back if the load is over.
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
