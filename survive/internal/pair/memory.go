package pair

import (
	"math"
	"runtime"
	"runtime/debug"
	"time"
)

const (
	// gcPercent makes the garbage of served requests be collected early: nothing of it
	// lives longer than a request, and the runtime's default would let 4 MB of it gather
	// before it collects for the first time.
	gcPercent = 20
	// asleepMemory is the size, in bytes, at which a process that does not serve collects
	// its garbage all the same: several times what it needs.
	asleepMemory = 16 << 20
	// mostStack is how large a stack gets, in bytes, until the runtime ends the process. Its
	// default is 1 GB: more than the cgroup allows, and a second's work.
	mostStack = 16 << 20
)

// asleep readies the memory of a process that stands by, and bounds its stacks. It makes no
// garbage, and yet each of the runtime's collections, every two minutes (runtime/proc.go,
// forcegcperiod), would cost a third of its memory.
func asleep() {
	debug.SetMaxStack(mostStack)
	debug.SetGCPercent(-1)
	debug.SetMemoryLimit(asleepMemory)
}

func (*system) awake() {
	debug.SetGCPercent(gcPercent)
	debug.SetMemoryLimit(math.MaxInt64)
	go func() {
		var m memory
		for range time.Tick(looks) {
			m.look()
		}
	}()
}

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
