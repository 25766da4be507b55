package counters

import (
	"bytes"
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/survive/internal/suspects"
)

// count opens and maps a file as two processes do, which count in turn.
func count(t *testing.T, path string, f func(*Counters)) {
	t.Helper()
	file, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	c, err := Map(file)
	if err != nil {
		t.Fatal(err)
	}
	f(c)
}

func TestCountsGoOn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "counters")
	if _, err := Read(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("before: %v", err)
	}
	count(t, path, func(c *Counters) {
		c.Start()
		c.Request(15)
		c.Request(1)
		c.Answer(0, 100*time.Microsecond)
		c.Answer(2, 2*time.Second)
		c.Answer(5, time.Minute)
	})
	count(t, path, func(c *Counters) { c.Suspects.Note(0).Begin(suspects.Subject{Node: 1}, 1, time.Now()) })
	fresh, err := Fresh(path+"-new", path)
	if err != nil {
		t.Fatal(err)
	}
	fresh.Close()
	count(t, path, func(c *Counters) { c.Start() }) // who had the file before counts where nobody looks
	if err := os.Rename(path+"-new", path); err != nil {
		t.Fatal(err)
	}
	count(t, path, func(c *Counters) {
		c.Takeover("crash")
		c.Takeover("none that is known")
		c.Request(15)
		c.Request(99) // of no table
		c.Request(44) // of the table, and unknown
		c.Request(53)
		c.Held()
		c.Answer(77, -time.Second) // a clock that went back
	})
	want := Counts{Layout: layout, Starts: 1, Time: uint64(62*time.Second + 100*time.Microsecond), Longest: uint64(time.Minute)}
	want.Takeovers[0] = 1
	want.Requests[5], want.Requests[1], want.Requests[0], want.Requests[change], want.Requests[held] = 2, 1, 2, 1, 1
	want.Errors[0], want.Errors[1], want.Errors[3] = 1, 1, 1
	want.Classes[0], want.Classes[5], want.Classes[6] = 2, 1, 1
	if got, err := Read(path); err != nil || got != want {
		t.Errorf("%+v, %v\nwant %+v", got, err, want)
	}
}

// Errors and kinds have names, and no two the same one.
func TestNames(t *testing.T) {
	for i, name := range Errors[1:] {
		errno := uint32(0)
		for n := uint32(1); n < 200; n++ {
			if unix.ErrnoName(unix.Errno(n)) == name {
				errno = n
			}
		}
		if got := errorOf(errno); got != i+1 {
			t.Errorf("%s, %d, is number %d, want %d", name, errno, got, i+1)
		}
	}
	for op, want := range map[uint32]string{
		0: "other", 1: "lookup", 2: "forget", 3: "getattr", 4: "change", 5: "readlink", 14: "open", 15: "read", 16: "change", 17: "statfs",
		18: "release", 27: "opendir", 28: "readdir", 29: "releasedir", 42: "forget", 53: "change",
	} {
		if got := Kinds[kindOf(op)]; got != want {
			t.Errorf("operation %d is %s, want %s", op, got, want)
		}
	}
}

// What is counted and its order belong to a number: change the number with them, or another
// version's counts are taken for these.
func TestTheLayoutHasANumber(t *testing.T) {
	type shape struct {
		layout               uint64
		fields               int
		causes               [len(Causes)]string
		kinds                [len(Kinds)]string
		errors               [len(Errors)]string
		bounds               [len(Bounds)]time.Duration
		size, offsetOfLatest int
	}
	latest, _ := reflect.TypeFor[Counts]().FieldByName("Refused")
	got := shape{layout, reflect.TypeFor[Counts]().NumField(), Causes, Kinds, Errors, Bounds, Size, int(latest.Offset)}
	want := shape{
		0x636f756e74_000003, 10,
		[...]string{"crash", "hang", "planned", "upgrade"},
		[...]string{"other", "lookup", "getattr", "readlink", "open", "read", "release", "opendir", "readdir", "releasedir", "forget", "statfs", "change", "held"},
		[...]string{"other", "ENOENT", "ESRCH", "EIO", "EACCES", "EINVAL", "EROFS", "ENOSYS", "ESTALE"},
		[...]time.Duration{100_000, 1_000_000, 10_000_000, 100_000_000, 1_000_000_000, 10_000_000_000},
		2360, 304,
	}
	if got != want {
		t.Errorf("%+v\nof number 3: %+v", got, want)
	}
}

// A file of another layout, or that somebody has spoilt, is read by nobody, counted in by nobody,
// and replaced by the next call-out. A process of another version may go on counting in it.
func TestWhatIsNotOfThisLayout(t *testing.T) {
	good := words[uint64]{Layout: layout}
	random := make([]byte, Size)
	for i := range random {
		random[i] = byte(rand.Uint32())
	}
	random[0] ^= 0x5a | 1
	other := good
	other.Layout++
	for name, content := range map[string][]byte{
		"nothing":        {},
		"another layout": bytes.Clone(other.bytes()),
		"shorter":        good.bytes()[:Size-1],
		"longer":         append(bytes.Clone(good.bytes()), 0),
		"a word":         good.bytes()[:8],
		"zeros":          make([]byte, Size),
		"ones":           bytes.Repeat([]byte{0xff}, Size),
		"random":         random,
	} {
		path := filepath.Join(t.TempDir(), "counters")
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		if c, err := Read(path); !errors.Is(err, errOther) || c != (Counts{}) {
			t.Errorf("%s: %+v, %v", name, c, err)
		}
		theirs, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer theirs.Close()
		c, err := Map(theirs)
		c.Start()
		if now, _ := os.ReadFile(path); !errors.Is(err, errOther) || !bytes.Equal(now, content) {
			t.Errorf("%s: changed: %v", name, err)
		}
		count(t, path, func(c *Counters) { c.Start() })
		if c, err := Read(path); err != nil || c.Starts != 1 {
			t.Errorf("%s, replaced: %+v, %v", name, c, err)
		}
		if info, err := theirs.Stat(); err != nil || info.Size() != int64(len(content)) {
			t.Errorf("%s: the old file has %d bytes, %v", name, info.Size(), err)
		}
	}
}

func TestWhatIsNoFileIsNeitherReadNorWaitedFor(t *testing.T) {
	for name, make := range map[string]func(path string) error{
		"a link":      func(path string) error { return os.Symlink("/etc/passwd", path) },
		"a pipe":      func(path string) error { return unix.Mkfifo(path, 0o600) },
		"a directory": func(path string) error { return os.Mkdir(path, 0o700) },
	} {
		path := filepath.Join(t.TempDir(), "counters")
		if err := make(path); err != nil {
			t.Fatal(err)
		}
		if _, err := Read(path); err == nil {
			t.Errorf("%s is read", name)
		}
		count(t, path, func(c *Counters) { c.Start() })
		if c, err := Read(path); err != nil || c.Starts != 1 {
			t.Errorf("%s, replaced: %+v, %v", name, c, err)
		}
	}
}

func TestWithoutAFileItCountsAllTheSame(t *testing.T) {
	c, err := Map(nil)
	if err != nil {
		t.Error(err)
	}
	c.Request(1)
	c.Answer(0, 0)
	if c.Requests[1].Load() != 1 || c.Classes[0].Load() != 1 {
		t.Error("it does not count")
	}
}

func TestCountingMakesNoGarbage(t *testing.T) {
	c, _ := Map(nil)
	if n := testing.AllocsPerRun(100, func() { c.Request(15); c.Answer(2, time.Millisecond) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkCount(b *testing.B) {
	c, _ := Map(nil)
	for b.Loop() {
		c.Request(15)
		begun := time.Now()
		c.Answer(0, time.Since(begun))
	}
}
