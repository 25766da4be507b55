package testnode

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Forever is how long anything may take, on any machine, before it is said to hang.
const Forever = 2 * time.Minute

// Eventually waits for a condition. It is asked less and less often, for a third of the time
// at most: it may execute the driver, and other tests need the CPUs.
func Eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	const least, most = time.Millisecond, 100 * time.Millisecond
	pause := least
	for deadline := time.Now().Add(Forever); ; {
		asked := time.Now()
		if condition() {
			return
		} else if asked.After(deadline) {
			t.Fatalf("waited in vain until %s", what)
		}
		time.Sleep(max(pause, 2*time.Since(asked)))
		pause = min(2*pause, most)
	}
}

// Suspend stops a process, and waits until it has stopped.
func Suspend(t *testing.T, pid int) {
	t.Helper()
	if err := unix.Kill(pid, unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	Eventually(t, "the process has stopped", func() bool {
		return strings.Contains(Read(t, "/proc", strconv.Itoa(pid), "stat"), ") T ")
	})
}

// Kill kills a process that this test started, and waits until it is gone.
func Kill(t *testing.T, pid int) {
	t.Helper()
	if err := unix.Kill(pid, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	Eventually(t, "the process is gone", func() bool { return !Alive(pid) })
}

// Alive tells whether a process runs; a zombie does not.
func Alive(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err == nil && !strings.Contains(string(stat), ") Z ")
}

// Read returns the content of a file.
func Read(t *testing.T, elements ...string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(elements...))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// Write makes a file with a content.
func Write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// MountsOn counts the mounts stacked on a directory, by mountinfo, which
// nobody needs to answer.
func MountsOn(t *testing.T, dir string) (count int) {
	t.Helper()
	escaped := strings.NewReplacer(" ", `\040`, "\n", `\012`, `\`, `\134`).Replace(dir)
	for line := range strings.Lines(Read(t, "/proc/self/mountinfo")) {
		if fields := strings.Fields(line); fields[4] == escaped {
			count++
		}
	}
	return count
}

// KernelBefore tells whether the running kernel is older than a version.
func KernelBefore(t *testing.T, wantMajor, wantMinor int) bool {
	t.Helper()
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		t.Fatal(err)
	}
	var major, minor int
	if _, err := fmt.Sscanf(unix.ByteSliceToString(name.Release[:]), "%d.%d", &major, &minor); err != nil {
		t.Fatal(err)
	}
	return major < wantMajor || major == wantMajor && minor < wantMinor
}

// Poke changes a byte in the middle of a file.
func Poke(path string, at int64) error {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	b := make([]byte, 1)
	if _, err := file.ReadAt(b, at); err != nil {
		return err
	}
	b[0] ^= 0xff
	_, err = file.WriteAt(b, at)
	return err
}
