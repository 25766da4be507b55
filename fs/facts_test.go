package fs_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/internal/proc"
	"example.com/pod-info-fuse/internal/testnode"
)

// replace replaces a file in one step.
func replace(t *testing.T, content string, elements ...string) {
	t.Helper()
	path := filepath.Join(elements...)
	hidden := filepath.Join(filepath.Dir(path), ".new")
	testnode.WriteFact(t, content, hidden)
	if err := os.Rename(hidden, path); err != nil {
		t.Fatal(err)
	}
}

func inode(t *testing.T, elements ...string) uint64 {
	t.Helper()
	info, err := os.Stat(filepath.Join(elements...))
	if err != nil {
		t.Fatal(err)
	}
	return info.Sys().(*syscall.Stat_t).Ino
}

func TestAFactIsThereAsSoonAsItsFile(t *testing.T) {
	d, facts := testnode.WithFacts(t, nil)
	one, two := d.Mount(), d.Mount()
	if got := testnode.Names(t, one); !slices.Equal(got, testnode.EveryVolume) {
		t.Errorf("without facts: %q", got)
	}
	testnode.WriteFact(t, "eu-1\n", facts, "zone")
	for _, volume := range []string{one, two} {
		if got := testnode.Read(t, volume, "node.zone"); got != "eu-1\n" {
			t.Errorf("added: %q", got)
		}
		if got := testnode.Names(t, volume); !slices.Contains(got, "node.zone") {
			t.Errorf("added: listed are %q", got)
		}
	}
	replace(t, "eu-2, which is longer\n", facts, "zone")
	if got := testnode.Read(t, one, "node.zone"); got != "eu-2, which is longer\n" {
		t.Errorf("replaced: %q", got)
	}
	testnode.WriteFact(t, "short\n", facts, "zone") // in place
	if got := testnode.Read(t, one, "node.zone"); got != "short\n" {
		t.Errorf("written to: %q", got)
	}
	if err := os.Remove(filepath.Join(facts, "zone")); err != nil {
		t.Fatal(err)
	}
	if _, err := os.ReadFile(filepath.Join(one, "node.zone")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("removed: %v", err)
	}
	if got := testnode.Names(t, one); !slices.Equal(got, testnode.EveryVolume) {
		t.Errorf("removed: listed are %q", got)
	}
}

func TestADescriptorKeepsItsVersionOfAFact(t *testing.T) {
	d, facts := testnode.WithFacts(t, nil)
	volume := d.Mount()
	replaced := func() { replace(t, "other", facts, "fact") }
	removed := func() { os.Remove(filepath.Join(facts, "fact")) }
	dead := func() {
		active, _ := d.Pair()
		testnode.Kill(t, active)
	}
	for _, row := range []struct {
		what    string
		size    int
		first   int // so many bytes are read before the change
		changes []func()
		lost    bool // the rest may be ESTALE
	}{
		{"replaced", 64 << 10, 10, []func(){replaced}, false},
		{"replaced before it is read", 64 << 10, 0, []func(){replaced}, false},
		{"removed", 64 << 10, 10, []func(){removed}, false},
		{"the process died", 64 << 10, 0, []func(){dead}, false},
		{"removed, and the process died", 16 << 10, 10, []func(){removed, dead}, false},
		{"removed before it is read, and the process died", 10, 0, []func(){removed, dead}, true},
		{"a large one is removed, and the process died", 64 << 10, 10, []func(){removed, dead}, true},
	} {
		before := strings.Repeat("before. ", row.size/8) + strings.Repeat(".", row.size%8)
		replace(t, before, facts, "fact")
		file, err := os.Open(filepath.Join(volume, "node.fact"))
		if err != nil {
			t.Fatal(err)
		}
		first := make([]byte, row.first)
		if _, err := io.ReadFull(file, first); err != nil {
			t.Fatal(err)
		}
		for _, change := range row.changes {
			change()
		}
		rest, err := io.ReadAll(file)
		got := string(first) + string(rest)
		switch {
		case err == nil && got == before:
		case row.lost && errors.Is(err, syscall.ESTALE) && strings.HasPrefix(before, got):
		default:
			t.Errorf("%s: got %d bytes, error %v; want the %d of before", row.what, len(got), err, len(before))
		}
		file.Close()
	}
}

// A writer replaces facts as fast as it can, readers read them in small pieces, and
// the process that serves them dies again and again. A reader gets one version whole; or,
// when a process died before the kernel had all of it, an error.
func TestAFactIsNeverTorn(t *testing.T) {
	d, facts := testnode.WithFacts(t, nil)
	volume := d.Mount()
	const first = 16 << 10 // bytes, which the first read brings
	sizes := map[string]int{"small": first, "big": 40000}
	content := func(name string, i int) string { return strings.Repeat(fmt.Sprintf("%07d\n", i), sizes[name]/8) }
	for name := range sizes {
		replace(t, content(name, 0), facts, name)
	}
	stop := make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() {
		for i := 1; ; i++ {
			select {
			case <-stop:
				return
			default:
				for name := range sizes {
					replace(t, content(name, i), facts, name)
				}
			}
		}
	})
	var kills, lost atomic.Int32
	for reader := range 8 {
		name := []string{"small", "big"}[reader%2]
		all.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					if n == 0 {
						t.Error("a reader has read nothing")
					}
					return
				default:
				}
				before := kills.Load()
				got, err := readInPieces(filepath.Join(volume, "node."+name), 7)
				if errors.Is(err, syscall.ESTALE) && kills.Load() > before && (got == "" || len(got) >= first) {
					lost.Add(1)
					continue
				}
				if err != nil {
					t.Errorf("%s: read %d: %v, after %d bytes", name, n, err, len(got))
					return
				}
				if len(got) != sizes[name] || got != strings.Repeat(got[:8], len(got)/8) {
					t.Errorf("%s: read %d is torn: %d bytes, %q to %q", name, n, len(got), got[:min(8, len(got))], got[max(0, len(got)-8):])
					return
				}
			}
		})
	}
	for range 5 {
		time.Sleep(300 * time.Millisecond)
		active, _ := d.Pair()
		kills.Add(1)
		testnode.Kill(t, active)
	}
	close(stop)
	all.Wait()
	t.Logf("%d of the readers lost their version when a process died", lost.Load())
}

// readInPieces returns what was read before an error, too.
func readInPieces(path string, size int) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	var all bytes.Buffer
	for piece := make([]byte, size); ; {
		n, err := file.Read(piece)
		all.Write(piece[:n])
		if err == io.EOF {
			return all.String(), nil
		} else if err != nil {
			return all.String(), err
		}
	}
}

// A fact is the same file in all volumes.
func TestNobodyLocksAFactForOthers(t *testing.T) {
	d, facts := testnode.WithFacts(t, nil)
	testnode.WriteFact(t, "eu-1\n", facts, "zone")
	locks := map[string]func(file *os.File) error{
		"flock, exclusive": func(file *os.File) error {
			return unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		},
		"flock, shared": func(file *os.File) error {
			return unix.Flock(int(file.Fd()), unix.LOCK_SH|unix.LOCK_NB)
		},
		"flock, waits": func(file *os.File) error { return unix.Flock(int(file.Fd()), unix.LOCK_EX) },
		"fcntl":        func(file *os.File) error { return lockBytes(file, unix.F_SETLK) },
		"fcntl, waits": func(file *os.File) error { return lockBytes(file, unix.F_SETLKW) },
		"fcntl, OFD":   func(file *os.File) error { return lockBytes(file, unix.F_OFD_SETLK) },
		"fcntl, asks":  func(file *os.File) error { return lockBytes(file, unix.F_GETLK) },
	}
	for _, volume := range []string{d.Mount(), d.Mount()} {
		for what, lock := range locks {
			file, err := os.Open(filepath.Join(volume, "node.zone"))
			if err != nil {
				t.Fatal(err)
			}
			defer file.Close()
			if err := lock(file); !errors.Is(err, unix.EOPNOTSUPP) {
				t.Fatalf("%s: %v, want EOPNOTSUPP", what, err)
			}
		}
	}
}

// The kernel does not ask the file system about a file whose owner is no user.
func TestAFactCannotBeChanged(t *testing.T) {
	d, facts := testnode.WithFacts(t, nil)
	testnode.WriteFact(t, "eu-1\n", facts, "zone")
	fact := filepath.Join(d.Mount(), "node.zone")
	for what, change := range map[string]func() error{
		"open for writing": func() error { return opened(fact, unix.O_WRONLY) },
		"truncate":         func() error { return unix.Truncate(fact, 0) },
		"chmod":            func() error { return unix.Chmod(fact, 0o666) },
		"chown":            func() error { return unix.Chown(fact, 0, 0) },
		"touch":            func() error { return unix.Utimes(fact, nil) },
		"unlink":           func() error { return unix.Unlink(fact) },
		"rename":           func() error { return unix.Rename(fact, fact+".new") },
		"link":             func() error { return unix.Link(fact, fact+".new") },
		"an attribute":     func() error { return unix.Setxattr(fact, "user.mine", []byte("1"), 0) },
	} {
		if err := change(); !slices.Contains([]error{unix.EROFS, unix.EACCES, unix.EPERM, unix.EOVERFLOW}, err) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if got := testnode.Read(t, fact); got != "eu-1\n" {
		t.Errorf("it reads %q", got)
	}
}

// A pod's root, which has no capability, owns the files of root.
func TestNobodyTakesALeaseOnAFact(t *testing.T) {
	d, facts := testnode.WithFacts(t, nil)
	testnode.WriteFact(t, "eu-1\n", facts, "zone")
	volume := d.Mount()
	lease := func(name string, how int) error {
		file, err := os.Open(filepath.Join(volume, name))
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		return proc.OnThread(func() error {
			header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
			var none [2]unix.CapUserData
			if err := unix.Capset(&header, &none[0]); err != nil {
				return err
			}
			_, err := unix.FcntlInt(file.Fd(), unix.F_SETLEASE, how)
			return err
		})
	}
	for _, how := range []int{unix.F_RDLCK, unix.F_WRLCK} {
		if err := lease("node.zone", how); !errors.Is(err, unix.EACCES) {
			t.Errorf("lease %d: %v, want EACCES", how, err)
		}
	}
	// It would be granted on what is root's: the pod's own copy of a file.
	if err := lease("pod.uid", unix.F_WRLCK); err != nil {
		t.Errorf("on pod.uid: %v", err)
	}
}

func lockBytes(file *os.File, how int) error {
	return unix.FcntlFlock(file.Fd(), how, &unix.Flock_t{Type: unix.F_RDLCK})
}

func TestAThousandFacts(t *testing.T) {
	d, facts := testnode.WithFacts(t, nil)
	volume := d.Mount()
	want := slices.Clone(testnode.EveryVolume)
	for i := range 1000 {
		name := fmt.Sprintf("fact-%d", i)
		testnode.WriteFact(t, name, facts, name)
		want = append(want, "node."+name)
	}
	slices.Sort(want)
	if got := testnode.Names(t, volume); !slices.Equal(got, want) {
		t.Errorf("%d names are listed, want %d", len(got), len(want))
	}
	inodes := map[uint64]string{}
	for i := range 1000 {
		name := fmt.Sprintf("fact-%d", i)
		if got := testnode.Read(t, volume, "node."+name); got != name {
			t.Errorf("%s: %q", name, got)
		}
		number := inode(t, volume, "node."+name)
		if other, taken := inodes[number]; taken {
			t.Errorf("%s and %s have inode %d", name, other, number)
		}
		inodes[number] = name
	}
	if s := d.Status().Facts; s.Count != 1000 || len(s.LeftOut) != 0 {
		t.Errorf("status: %+v", s)
	}
}

func TestWhatCannotBeAFactIsLeftOut(t *testing.T) {
	d, facts := testnode.WithFacts(t, nil)
	testnode.WriteFact(t, "outside", filepath.Dir(facts), "outside")
	long, longest := strings.Repeat("l", 65), strings.Repeat("m", 64)
	reasons := map[string]string{
		"Capital":          "not plain",
		"white space":      "not plain",
		"_underscore":      "not plain",
		"\u00fcml\u00e4ut": "not plain",
		long:               "more than 64",
		"directory":        "not a regular file",
		"device":           "not a regular file",
		"fifo":             "not a regular file",
		"link-out":         "leads out",
		"link-up":          "leads out",
		"link-to-nothing":  "to nothing",
		"large":            "more than 65536",
		"secret":           "may not read",
		"kernel":           "itself",
	}
	for _, err := range []error{
		os.Mkdir(filepath.Join(facts, "directory"), 0o755),
		syscall.Mknod(filepath.Join(facts, "device"), syscall.S_IFCHR|0o644, 1<<8|3), // /dev/null
		syscall.Mkfifo(filepath.Join(facts, "fifo"), 0o644),
		os.Symlink("/etc/hostname", filepath.Join(facts, "link-out")),
		os.Symlink("../outside", filepath.Join(facts, "link-up")),
		os.Symlink("nothing", filepath.Join(facts, "link-to-nothing")),
		os.Symlink("good", filepath.Join(facts, "link")),
		os.Symlink(longest, filepath.Join(facts, ".hidden-link")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"Capital", "white space", "_underscore", "\u00fcml\u00e4ut", long, "kernel", "secret"} {
		testnode.WriteFact(t, "bad", facts, name)
	}
	testnode.WriteFact(t, strings.Repeat("x", 64<<10+1), facts, "large")
	if err := os.Chmod(filepath.Join(facts, "secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	good := map[string]string{
		"good": "good\n", "link": "good\n", "empty": "", "0.9_z-": "plain", longest: "longest",
		"largest": strings.Repeat("y", 64<<10), "no-newline": "no newline",
	}
	for name, content := range good {
		if name != "link" {
			testnode.WriteFact(t, content, facts, name)
		}
	}
	volume := d.Mount()
	want := slices.Clone(testnode.EveryVolume)
	for name, content := range good {
		want = append(want, "node."+name)
		if got := testnode.Read(t, volume, "node."+name); got != content {
			t.Errorf("%s: got %.20q of %d bytes, want %.20q of %d", name, got, len(got), content, len(content))
		}
	}
	slices.Sort(want)
	if got := testnode.Names(t, volume); !slices.Equal(got, want) {
		t.Errorf("listed: %q\nwant    %q", got, want)
	}
	left := map[string]string{}
	for _, l := range d.Status().Facts.LeftOut {
		left[l.Name] = l.Reason
	}
	log := testnode.Read(t, filepath.Dir(facts), "log")
	for name, reason := range reasons {
		if !strings.Contains(left[name], reason) {
			t.Errorf("status says of %q: %q, want %q", name, left[name], reason)
		}
		if !strings.Contains(log, fmt.Sprintf("fact %q is left out: %s", name, left[name])) {
			t.Errorf("the log does not have %q:\n%s", name, log)
		}
		if _, err := os.Stat(filepath.Join(volume, "node."+name)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%q is there: %v", name, err)
		}
	}
	if len(left) != len(reasons) {
		t.Errorf("left out: %q", left)
	}
}

func TestAFactKeepsItsInode(t *testing.T) {
	d, facts := testnode.WithFacts(t, nil)
	one, two := d.Mount(), d.Mount()
	testnode.WriteFact(t, "eu-1\n", facts, "zone")
	want := inode(t, one, "node.zone")
	check := func(when string) {
		t.Helper()
		for _, volume := range []string{one, two} {
			if got := inode(t, volume, "node.zone"); got != want {
				t.Errorf("%s: inode %d, before %d", when, got, want)
			}
		}
	}
	check("in another volume")
	replace(t, "eu-2\n", facts, "zone")
	check("replaced")
	active, _ := d.Pair()
	testnode.Kill(t, active)
	check("after a take-over")
	d.Pair()
	d.KillPair()
	d.Must("init")
	check("after all had died")
	for _, e := range testnode.Must(os.ReadDir(one)) {
		if e.Name() == "node.zone" && inode(t, one, e.Name()) != want {
			t.Error("the listing has another inode")
		}
	}
}

func TestADirectoryOfFactsThatComesBack(t *testing.T) {
	d, facts := testnode.WithFacts(t, nil)
	volume := d.Mount()
	testnode.WriteFact(t, "eu-1\n", facts, "zone")
	testnode.Read(t, volume, "node.zone")
	for _, again := range []func(){
		func() { d.Must("init") },
		func() { d.Mount() },
	} {
		if err := os.RemoveAll(facts); err != nil {
			t.Fatal(err)
		}
		if got := testnode.Names(t, volume); !slices.Equal(got, testnode.EveryVolume) {
			t.Errorf("the directory is gone: %q", got)
		}
		if err := os.Mkdir(facts, 0o755); err != nil {
			t.Fatal(err)
		}
		testnode.WriteFact(t, "eu-2\n", facts, "zone")
		if s := d.Status().Facts; !s.Stale {
			t.Errorf("status does not say that the directory is a new one: %+v", s)
		}
		again()
		if got := testnode.Read(t, volume, "node.zone"); got != "eu-2\n" {
			t.Errorf("the directory is back: %q", got)
		}
		if s := d.Status(); s.Facts.Stale || s.Daemon.Upgrades != 0 {
			t.Errorf("status: %+v", s)
		}
	}
	d.Pair()
}

func TestFactsOfThePod(t *testing.T) {
	kernel := strings.TrimSpace(testnode.Read(t, "/proc/sys/kernel/osrelease")) + "\n"
	for _, row := range []struct {
		name   string
		config map[string]any
		option string
		want   map[string]string
	}{
		{"none", nil, "", nil},
		{"asked for", nil, "pod.name, pod.namespace", map[string]string{"pod.name": "web-0\n", "pod.namespace": "shop\n"}},
		{"asked for twice", nil, "volume.name,volume.name", map[string]string{"volume.name": "info\n"}},
		{"in all volumes", map[string]any{"facts": []string{"pod.serviceaccount", "node.kernel", "node.bootid"}}, "",
			map[string]string{"pod.serviceaccount": "default\n", "node.kernel": kernel, "node.bootid": testnode.Read(t, "/proc/sys/kernel/random/boot_id")}},
		{"both", map[string]any{"facts": []string{"pod.name"}}, "pod.namespace", map[string]string{"pod.name": "web-0\n", "pod.namespace": "shop\n"}},
	} {
		d, _ := testnode.WithFacts(t, row.config)
		volume := t.TempDir()
		d.Must("mount", volume, testnode.WithOption(row.option))
		want := slices.Clone(testnode.EveryVolume)
		for name, content := range row.want {
			want = append(want, name)
			if got := testnode.Read(t, volume, name); got != content {
				t.Errorf("%s: %s is %q, want %q", row.name, name, got, content)
			}
		}
		slices.Sort(want)
		if got := testnode.Names(t, volume); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", row.name, got, want)
		}
	}
}

func TestFactsThatNobodyKnowsFailMount(t *testing.T) {
	for _, row := range []struct {
		name   string
		config map[string]any
		option string
		want   []string
	}{
		{"option", nil, "pod.name,pod.ip", []string{`"facts"`, `"pod.ip"`, "pod.namespace"}},
		{"option, of the node", nil, "node.kernel", []string{`"facts"`, `"node.kernel"`}},
		{"option, empty name", nil, "pod.name,", []string{`"facts"`, `""`}},
		{"config, unknown fact", map[string]any{"facts": []string{"pod.ip"}}, "", []string{"facts", `"pod.ip"`, "config.json"}},
		{"config, no list", map[string]any{"facts": "pod.name"}, "", []string{"facts", "config.json"}},
		{"config, relative directory", map[string]any{"factsDir": "facts.d"}, "", []string{"factsDir", `"facts.d"`}},
		{"config, unknown key", map[string]any{"factDir": "/facts.d"}, "", []string{`"factDir"`}},
	} {
		d, _ := testnode.WithFacts(t, row.config)
		volume := t.TempDir()
		a := d.Call("mount", volume, testnode.WithOption(row.option))
		for _, want := range row.want {
			if a.Status != "Failure" || !strings.Contains(a.Message, want) {
				t.Errorf("%s: %+v, want a failure that has %s", row.name, a, want)
			}
		}
		if testnode.MountsOn(t, volume) != 0 || len(d.Records()) != 0 {
			t.Errorf("%s: something is left", row.name)
		}
	}
}
