package testnode

import (
	encoding "encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// Anew makes the directory of facts anew, with one fact in it.
func Anew(t *testing.T, facts, zone string) {
	t.Helper()
	if err := errors.Join(os.RemoveAll(facts), os.Mkdir(facts, 0o755)); err != nil {
		t.Fatal(err)
	}
	WriteFact(t, zone, facts, "zone")
}

// Hang mounts a file system on a directory that takes requests and never answers: not even
// SIGKILL ends who waits for one. recover removes it, and ends those waits.
func Hang(t *testing.T, dir string) (recover func()) {
	t.Helper()
	device, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("hang", dir, "fuse.hang", 0, fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other", device)); err != nil {
		t.Fatal(err)
	}
	// FUSE_INIT is answered, with protocol 7.31 and no feature.
	request, reply := make([]byte, 1<<17), make([]byte, 16+64) // struct fuse_out_header, fuse_init_out
	if _, err := unix.Read(device, request); err != nil {
		t.Fatal(err)
	}
	copy(reply[8:16], request[8:16]) // its id
	for at, value := range map[int]uint32{0: uint32(len(reply)), 16: 7, 20: 31, 36: 4096} {
		encoding.NativeEndian.PutUint32(reply[at:], value)
	}
	if _, err := unix.Write(device, reply); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			_, err := unix.Read(device, request)
			switch {
			case errors.Is(err, unix.EAGAIN):
				_, _ = unix.Poll([]unix.PollFd{{Fd: int32(device), Events: unix.POLLIN}}, -1)
			case errors.Is(err, unix.ENODEV), errors.Is(err, unix.ECONNABORTED):
				return
			}
		}
	}()
	recover = sync.OnceFunc(func() {
		if err := unix.Unmount(dir, unix.MNT_FORCE|unix.MNT_DETACH); err != nil {
			t.Errorf("unmount %s: %v", dir, err)
		}
		<-ended
		unix.Close(device)
	})
	t.Cleanup(recover)
	return recover
}

// WithFacts installs a driver with a directory of facts of its own. more are other
// keys of its configuration.
func WithFacts(t *testing.T, more map[string]any) (d Driver, dir string) {
	t.Helper()
	d = Install(t)
	base := Reachable(t)
	dir = filepath.Join(base, "facts.d")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	configuration := map[string]any{"factsDir": dir, "log": filepath.Join(base, "log")}
	for key, value := range more {
		configuration[key] = value
	}
	text, err := json.Marshal(configuration)
	if err != nil {
		t.Fatal(err)
	}
	WriteFact(t, string(text), filepath.Dir(d.Path), "config.json")
	return d, dir
}

// Reachable is a temporary directory that the daemon's user can reach.
func Reachable(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for path := dir; path != "/"; path = filepath.Dir(path) {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, info.Mode()|0o011); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// WriteFact makes a file that everybody may read, with a content.
func WriteFact(t *testing.T, content string, elements ...string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(elements...), []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// Names are those of what is in a directory.
func Names(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// EveryVolume are the files that each volume has.
var EveryVolume = []string{"pid", "pod", "pod.nodename", "pod.uid"}

// Must returns a value, and panics with an error.
func Must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// WithOption is [GoodOptions] with the option facts, if it is not empty.
func WithOption(facts string) string {
	if facts == "" {
		return GoodOptions
	}
	return strings.Replace(GoodOptions, "{", fmt.Sprintf(`{"facts":%q,`, facts), 1)
}
