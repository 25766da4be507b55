package metrics

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
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

// counter has the counts of a call-out.
type counter[T any] struct {
	Outcomes [len(outcomes)]T
	Classes  [len(bounds) + 1]T // of durations
	Total    T                  // of durations, in nanoseconds
}

// Calls are the counts of a driver's call-outs, since its daemon was started. The file has
// them in the machine's byte order.
type Calls [len(callOuts)]counter[uint64]

// CallsFileName is the name of their file, in the run directory.
const CallsFileName = "callouts"

const callsSize = int(unsafe.Sizeof(Calls{}))

// CreateCalls makes the file that Record adds to, if it is not there. It replaces one of
// another version, which counts something else. It allocates the file's memory, so that
// call-outs are counted on a file system that is full later, too, and do not end with SIGBUS there.
// When it fails, there is no file.
func CreateCalls(path string) error {
	if info, err := os.Lstat(path); err == nil && info.Mode().IsRegular() && info.Size() == int64(callsSize) {
		return nil
	}
	// Not over it: a process of the other version may be adding to it.
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	err := os.WriteFile(path, make([]byte, callsSize), 0o600)
	if err != nil {
		os.Remove(path)
	}
	return err
}

// Record counts a call-out, where CreateCalls has been called. Otherwise, and after a failure, the
// call-out goes on without being counted. Processes that record at the same time add to the same
// memory, and none waits for another.
func Record(path, callOut, outcome string, took time.Duration) {
	file, err := openCalls(path, os.O_RDWR)
	if err != nil {
		return
	}
	defer file.Close()
	memory, err := unix.Mmap(int(file.Fd()), 0, callsSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return
	}
	defer unix.Munmap(memory)
	all := (*[len(callOuts)]counter[atomic.Uint64])(unsafe.Pointer(unsafe.SliceData(memory)))
	c := &all[index(callOuts[:], callOut)]
	c.Outcomes[index(outcomes[:], outcome)].Add(1)
	c.Classes[class(took)].Add(1)
	c.Total.Add(uint64(max(took, 0)))
}

// ReadCalls returns the counts.
func ReadCalls(path string) (c Calls, err error) {
	file, err := openCalls(path, os.O_RDONLY)
	if err == nil {
		defer file.Close()
		err = binary.Read(file, binary.NativeEndian, &c)
	}
	if err != nil {
		err = fmt.Errorf("read the counts of call-outs, %s: %w", path, err)
	}
	return c, err
}

// openCalls opens a file of this version, whose size tells it.
func openCalls(path string, flags int) (*os.File, error) {
	file, err := os.OpenFile(path, flags|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() || info.Size() != int64(callsSize) {
		file.Close()
		return nil, cmp.Or(err, error(unix.EINVAL))
	}
	return file, nil
}

// index finds a name, or returns the last.
func index(names []string, name string) int {
	if i := slices.Index(names, name); i >= 0 {
		return i
	}
	return len(names) - 1
}

// class is that of the first bound which a duration does not exceed.
func class(took time.Duration) int {
	i, _ := slices.BinarySearch(bounds[:], took)
	return i
}

// Write writes the counts as a counter and a histogram.
func (c Calls) Write(t *Text) {
	t.Family("callouts_total", "counter", "Call-outs of the kubelet, by their outcome.")
	for i, name := range callOuts {
		for j, outcome := range outcomes {
			t.Sample(float64(c[i].Outcomes[j]), "callout", name, "outcome", SnakeCase(outcome))
		}
	}
	t.Family("callout_duration_seconds", "histogram", "How long call-outs took, from the start of their process.")
	for i, name := range callOuts {
		t.histogram(bounds[:], c[i].Classes[:], time.Duration(c[i].Total).Seconds(), "callout", name)
	}
}
