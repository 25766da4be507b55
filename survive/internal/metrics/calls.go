package metrics

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/internal/filelock"
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
type counter struct {
	Outcomes [len(outcomes)]uint64
	Classes  [len(bounds) + 1]uint64 // of durations
	Total    uint64                  // of durations, in nanoseconds
}

// Calls are the counts of a driver's call-outs, since its daemon was started. The file has
// them in the machine's byte order.
type Calls [len(callOuts)]counter

// CallsFileName is the name of their file, in the run directory.
const CallsFileName = "callouts"

const callsSize = int(unsafe.Sizeof(Calls{}))

// CreateCalls makes the file that Record adds to, if it is not there. It replaces one of
// another version, which counts something else. It allocates the file's memory, so that
// call-outs are counted on a file system that is full later, too. When it fails, there is no
// file.
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

// Record counts a call-out, where CreateCalls has been called. Otherwise, and after a
// failure, the call-out goes on without being counted.
func Record(path, callOut, outcome string, took time.Duration) {
	_ = withCalls(path, os.O_RDWR, func(file *os.File, all *Calls) error {
		c := &all[index(callOuts[:], callOut)]
		c.Outcomes[index(outcomes[:], outcome)]++
		c.Classes[class(took)]++
		c.Total += uint64(max(took, 0))
		content, err := binary.Append(nil, binary.NativeEndian, all)
		if err == nil {
			_, err = file.WriteAt(content, 0)
		}
		return err
	})
}

// ReadCalls returns the counts.
func ReadCalls(path string) (c Calls, err error) {
	err = withCalls(path, os.O_RDONLY, func(_ *os.File, all *Calls) error { c = *all; return nil })
	if err != nil {
		err = fmt.Errorf("read the counts of call-outs, %s: %w", path, err)
	}
	return c, err
}

// withCalls calls f with the file, locked, and what is in it. The file is not mapped:
// a page that is not there when it is touched ends the process with SIGBUS.
func withCalls(path string, flags int, f func(*os.File, *Calls) error) error {
	file, err := os.OpenFile(path, flags|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	if info, err := file.Stat(); err != nil {
		return err
	} else if !info.Mode().IsRegular() || info.Size() != int64(callsSize) {
		return unix.EINVAL // another version's
	}
	if err := filelock.Within(time.Now().Add(longestLock), file, filelock.Flock(unix.LOCK_EX)); err != nil {
		return err
	}
	var all Calls
	if err := binary.Read(file, binary.NativeEndian, &all); err != nil {
		return err
	}
	return f(file, &all)
}

// longestLock is how long a call-out waits for others that count. It takes them
// microseconds, but one may have been stopped, and the kubelet waits for us.
const longestLock = time.Second

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
