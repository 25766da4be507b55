package metrics

import (
	"fmt"
	"os"
	"slices"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The call-outs and outcomes that are counted apart; others count as the last.
var (
	callOuts = [...]string{"init", "mount", "unmount", "other"}
	outcomes = [...]string{"Success", "Failure", "Not supported"}
)

// bounds are the upper bounds of the classes of durations, but for the last class,
// which has none.
var bounds = [...]time.Duration{
	time.Millisecond, 2500 * time.Microsecond, 5 * time.Millisecond,
	10 * time.Millisecond, 25 * time.Millisecond, 50 * time.Millisecond,
	100 * time.Millisecond, 250 * time.Millisecond, time.Second, 10 * time.Second,
}

// counter is what is counted of a call-out.
type counter struct {
	Outcomes [len(outcomes)]uint64
	Classes  [len(bounds) + 1]uint64 // of durations
	Total    uint64                  // of durations, in nanoseconds
}

// calls is the content of the file: in memory, so that processes can add to it at
// the same time, and none of them has to lock or write anything.
type calls [len(callOuts)]counter

const callsSize = int(unsafe.Sizeof(calls{}))

// Calls are the counts of a driver's call-outs, since its daemon was started.
type Calls calls

// CreateCalls makes the file that Record adds to, if it is not there. One of
// another version is replaced: its counts are others. It is not cut, because a
// call-out that has it in its memory would die of that.
func CreateCalls(path string) error {
	if info, err := os.Lstat(path); err == nil && info.Size() != int64(callsSize) {
		if err := os.Remove(path); err != nil {
			return err
		}
	}
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	return file.Truncate(int64(callsSize))
}

// Record counts a call-out, where CreateCalls has been called. Where it has not,
// or anything fails, the call-out is not counted: that is no reason to fail it.
func Record(path, callOut, outcome string, took time.Duration) {
	_ = withCalls(path, unix.O_RDWR, unix.PROT_READ|unix.PROT_WRITE, func(shared *calls) {
		c := &shared[index(callOuts[:], callOut)]
		atomic.AddUint64(&c.Outcomes[index(outcomes[:], outcome)], 1)
		atomic.AddUint64(&c.Classes[class(took)], 1)
		atomic.AddUint64(&c.Total, uint64(max(took, 0)))
	})
}

// ReadCalls returns the counts.
func ReadCalls(path string) (c Calls, err error) {
	err = withCalls(path, unix.O_RDONLY, unix.PROT_READ, func(shared *calls) { c = Calls(*shared) })
	if err != nil {
		return Calls{}, fmt.Errorf("read the counts of call-outs, %s: %w", path, err)
	}
	return c, nil
}

func withCalls(path string, flags, protection int, f func(*calls)) error {
	fd, err := unix.Open(path, flags|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return err
	}
	if stat.Size != int64(callsSize) {
		return unix.EINVAL // another version's
	}
	memory, err := unix.Mmap(fd, 0, callsSize, protection, unix.MAP_SHARED)
	if err != nil {
		return err
	}
	f((*calls)(unsafe.Pointer(&memory[0])))
	return unix.Munmap(memory)
}

// index finds a name, or returns the last.
func index(names []string, name string) int {
	if i := slices.Index(names, name); i >= 0 {
		return i
	}
	return len(names) - 1
}

func class(took time.Duration) int {
	for i, bound := range bounds {
		if took <= bound {
			return i
		}
	}
	return len(bounds)
}

// Write writes the counts as a counter and a histogram.
func (c Calls) Write(t *Text) {
	t.Family("callouts_total", "counter", "Call-outs of the kubelet, by their outcome.")
	for i, name := range callOuts {
		for j, outcome := range outcomes {
			t.Sample(float64(c[i].Outcomes[j]), "callout", name, "outcome", outcome)
		}
	}
	t.Family("callout_duration_seconds", "histogram", "How long call-outs took, from the start of their process.")
	for i, name := range callOuts {
		t.histogram(c[i], "callout", name)
	}
}

func (t *Text) histogram(c counter, labels ...string) {
	count := uint64(0)
	for i, n := range c.Classes {
		count += n
		bound := "+Inf"
		if i < len(bounds) {
			bound = number(bounds[i].Seconds())
		}
		t.suffixed("_bucket", float64(count), append(slices.Clone(labels), "le", bound)...)
	}
	t.suffixed("_sum", time.Duration(c.Total).Seconds(), labels...)
	t.suffixed("_count", float64(count), labels...)
}
