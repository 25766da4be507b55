package proc

import (
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// What the kernel tells others of this process is what this process knows, whatever its name is.
func TestUsage(t *testing.T) {
	const name = "/proc/self/comm"
	own, err := os.ReadFile(name)
	must(t, err)
	must(t, os.WriteFile(name, []byte("a) b ("), 0))
	defer os.WriteFile(name, own, 0)
	was, err := UsageOf(os.Getpid())
	must(t, err)
	const more = 64 << 20
	// Not of Go's memory, some of which is free already.
	memory, err := unix.Mmap(-1, 0, more, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	must(t, err)
	defer unix.Munmap(memory)
	for i := range memory {
		memory[i] = 1
	}
	for range 100 {
		file, err := os.Open(os.DevNull)
		must(t, err)
		defer file.Close()
	}
	now, err := UsageOf(os.Getpid())
	must(t, err)
	if grown := int64(now.ResidentMemory) - int64(was.ResidentMemory); grown < more/2 || grown > 2*more {
		t.Errorf("of %d bytes more, %d are told", more, grown)
	}
	// 0: before Linux 6.2. What other tests have left may be closed meanwhile: a process that Run
	// has killed is still waited for.
	if was.OpenFiles != 0 && now.OpenFiles < was.OpenFiles+90 {
		t.Errorf("of 100 files more, from %d to %d are told", was.OpenFiles, now.OpenFiles)
	}
	var before, after unix.Rusage
	for until := time.Now().Add(time.Minute); now.CPUTime < was.CPUTime+200*time.Millisecond; { // this costs CPU time, most of it of the system
		must(t, unix.Getrusage(unix.RUSAGE_SELF, &before))
		if now, err = UsageOf(os.Getpid()); err != nil || time.Now().After(until) {
			t.Fatalf("%v, then %v after more work, %v", was, now, err)
		}
	}
	must(t, unix.Getrusage(unix.RUSAGE_SELF, &after))
	least := time.Duration(before.Utime.Nano()+before.Stime.Nano()) - 100*time.Millisecond
	most := time.Duration(after.Utime.Nano()+after.Stime.Nano()) + 100*time.Millisecond
	if now.CPUTime < least || now.CPUTime > most {
		t.Errorf("a CPU time of %v is told, not from %v to %v", now.CPUTime, least, most)
	}
}
