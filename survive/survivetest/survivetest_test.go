package survivetest

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/survive"
	"example.com/pod-info-fuse/survive/volume"
)

// good is a file system that survives: each volume has files and a link, so many that the test
// lists them by several requests. A mutant makes one mistake.
type good struct {
	volume.Root
	mutant
}

// mutant has what a mutant does in another way; nil: as the good one.
type mutant struct {
	attr    func(a *fuse.Attr)
	entry   func(out *fuse.EntryOut)
	text    func(record volume.Record) (string, error)
	target  func() string
	names   func(names []string) []string
	numbers []string // number of a file, by its place
	open    func(out *fuse.OpenOut)
}

var files = func() []string {
	all := []string{"file", "other", "link"}
	for i := range 9 {
		all = append(all, "another-"+strconv.Itoa(i))
	}
	return all
}()

// began is when this process began.
var began = time.Now()

func (m mutant) driver() survive.Driver {
	return survive.Driver{FileSystem: func(site survive.Site) survive.FileSystem {
		if m.numbers == nil {
			m.numbers = files
		}
		return &good{volume.NewRoot(site.Volumes), m}
	}}
}

func (g *good) name(node uint64) string {
	_, number := volume.Split(node)
	if number == 0 || int(number) > len(g.numbers) || node == fuse.FUSE_ROOT_ID {
		return ""
	}
	return g.numbers[number-1]
}

func (g *good) content(node uint64) (string, fuse.Status) {
	record, status := g.Record(node)
	if !status.Ok() {
		return "", status
	}
	if g.text != nil {
		text, err := g.text(record)
		return text, fuse.ToStatus(err)
	}
	if g.name(node) != "file" {
		return "about " + g.name(node) + "\n", fuse.OK
	}
	return strings.Repeat("what does not change\n", 2000), fuse.OK
}

func (g *good) attributes(node uint64, out *fuse.Attr) fuse.Status {
	record, status := g.Record(node)
	if !status.Ok() {
		return status
	}
	*out = fuse.Attr{Ino: node, Mode: fuse.S_IFREG | 0o444, Nlink: 1}
	if g.name(node) == "link" {
		out.Mode = fuse.S_IFLNK | 0o777
	} else {
		text, status := g.content(node)
		if !status.Ok() {
			return status
		}
		out.Size = uint64(len(text))
	}
	out.SetTimes(nil, &record.Mounted, &record.Mounted)
	if g.attr != nil {
		g.attr(out)
	}
	return fuse.OK
}

func (g *good) Lookup(cancel <-chan struct{}, in *fuse.InHeader, name string, out *fuse.EntryOut) fuse.Status {
	if in.NodeId == fuse.FUSE_ROOT_ID {
		return g.Root.Lookup(cancel, in, name, out)
	}
	record, status := g.Record(in.NodeId)
	at := slices.Index(g.numbers, name)
	if !status.Ok() || at < 0 {
		return fuse.ENOENT
	}
	record.Entry(uint8(at+1), out)
	status = g.attributes(out.NodeId, &out.Attr)
	if g.entry != nil {
		g.entry(out)
	}
	return status
}

func (g *good) GetAttr(cancel <-chan struct{}, in *fuse.GetAttrIn, out *fuse.AttrOut) fuse.Status {
	if _, number := volume.Split(in.NodeId); in.NodeId == fuse.FUSE_ROOT_ID || number == 0 {
		return g.Root.GetAttr(cancel, in, out)
	}
	if g.name(in.NodeId) == "" {
		return fuse.Status(unix.ESTALE)
	}
	return g.attributes(in.NodeId, &out.Attr)
}

func (g *good) ReadDir(cancel <-chan struct{}, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	if in.NodeId == fuse.FUSE_ROOT_ID {
		return g.Root.ReadDir(cancel, in, out)
	}
	list := slices.Clone(g.numbers)
	if g.names != nil {
		list = g.names(list)
	}
	if !volume.Dots(in, out) {
		return fuse.OK
	}
	for i := max(int(in.Offset)-volume.FirstOffset, 0); i < len(list); i++ {
		if !out.AddDirEntry(fuse.DirEntry{Name: list[i], Mode: fuse.S_IFREG, Ino: 1, Off: uint64(volume.FirstOffset + i + 1)}) {
			break
		}
	}
	return fuse.OK
}

func (g *good) Open(_ <-chan struct{}, _ *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	if g.open != nil {
		g.open(out)
	}
	return fuse.OK
}

func (g *good) Read(_ <-chan struct{}, in *fuse.ReadIn, _ []byte) (fuse.ReadResult, fuse.Status) {
	text, status := g.content(in.NodeId)
	from := min(int(in.Offset), len(text))
	return fuse.ReadResultData([]byte(text[from:min(from+int(in.Size), len(text))])), status
}

func (g *good) Readlink(<-chan struct{}, *fuse.InHeader) ([]byte, fuse.Status) {
	if g.target != nil {
		return []byte(g.target()), fuse.OK
	}
	return []byte("file"), fuse.OK
}

// tabled hands out the numbers of nodes in the order in which it is asked for them, and keeps them
// in a table.
type tabled struct{ good }

// table is the package's: all file systems of a process would share it.
var table struct {
	sync.Mutex
	nodes []uint64
}

func (t *tabled) node(number uint64) uint64 {
	table.Lock()
	defer table.Unlock()
	if at := number - fuse.FUSE_ROOT_ID - 1; at < uint64(len(table.nodes)) {
		return table.nodes[at]
	}
	return number
}

func (t *tabled) Lookup(cancel <-chan struct{}, in *fuse.InHeader, name string, out *fuse.EntryOut) fuse.Status {
	status := t.good.Lookup(cancel, in, name, out)
	if !status.Ok() || in.NodeId == fuse.FUSE_ROOT_ID {
		return status
	}
	table.Lock()
	defer table.Unlock()
	at := slices.Index(table.nodes, out.NodeId)
	if at < 0 {
		at = len(table.nodes)
		table.nodes = append(table.nodes, out.NodeId)
	}
	out.NodeId = fuse.FUSE_ROOT_ID + 1 + uint64(at)
	return status
}

func (t *tabled) GetAttr(cancel <-chan struct{}, in *fuse.GetAttrIn, out *fuse.AttrOut) fuse.Status {
	in.NodeId = t.node(in.NodeId)
	return t.good.GetAttr(cancel, in, out)
}

func (t *tabled) Read(cancel <-chan struct{}, in *fuse.ReadIn, buffer []byte) (fuse.ReadResult, fuse.Status) {
	in.NodeId = t.node(in.NodeId)
	return t.good.Read(cancel, in, buffer)
}

// cursor keeps a listing in memory from its first request to its last.
type cursor struct {
	good
	mu   sync.Mutex
	list map[uint64][]string
}

func (c *cursor) ReadDir(cancel <-chan struct{}, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	if in.NodeId == fuse.FUSE_ROOT_ID {
		return c.Root.ReadDir(cancel, in, out)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if in.Offset == 0 {
		c.list[in.NodeId] = c.numbers
	}
	if int(in.Offset) >= len(c.list[in.NodeId]) {
		delete(c.list, in.NodeId) // this is the end
	}
	for i := int(in.Offset); i < len(c.list[in.NodeId]); i++ {
		if !out.AddDirEntry(fuse.DirEntry{Name: c.list[in.NodeId][i], Mode: fuse.S_IFREG, Ino: 1, Off: uint64(i + 1)}) {
			break
		}
	}
	return fuse.OK
}

// alone is a file system without volumes: its root has one file.
type alone struct {
	fuse.RawFileSystem
	text string
}

func (a *alone) Lookup(_ <-chan struct{}, in *fuse.InHeader, name string, out *fuse.EntryOut) fuse.Status {
	if in.NodeId != fuse.FUSE_ROOT_ID || name != "file" {
		return fuse.ENOENT
	}
	out.NodeId, out.Attr = 2, fuse.Attr{Ino: 2, Mode: fuse.S_IFREG | 0o444, Nlink: 1, Size: uint64(len(a.text))}
	return fuse.OK
}

func (a *alone) GetAttr(_ <-chan struct{}, in *fuse.GetAttrIn, out *fuse.AttrOut) fuse.Status {
	out.Attr = fuse.Attr{Ino: in.NodeId, Mode: fuse.S_IFDIR | 0o555, Nlink: 2}
	if in.NodeId != fuse.FUSE_ROOT_ID {
		out.Attr = fuse.Attr{Ino: 2, Mode: fuse.S_IFREG | 0o444, Nlink: 1, Size: uint64(len(a.text))}
	}
	return fuse.OK
}

func (a *alone) OpenDir(<-chan struct{}, *fuse.OpenIn, *fuse.OpenOut) fuse.Status { return fuse.OK }

func (a *alone) ReadDir(_ <-chan struct{}, in *fuse.ReadIn, out *fuse.DirEntryList) fuse.Status {
	if volume.Dots(in, out) && in.Offset <= volume.FirstOffset {
		out.AddDirEntry(fuse.DirEntry{Name: "file", Mode: fuse.S_IFREG, Ino: 2, Off: volume.FirstOffset + 1})
	}
	return fuse.OK
}

func (a *alone) Open(<-chan struct{}, *fuse.OpenIn, *fuse.OpenOut) fuse.Status { return fuse.OK }

func (a *alone) Read(_ <-chan struct{}, in *fuse.ReadIn, _ []byte) (fuse.ReadResult, fuse.Status) {
	return fuse.ReadResultData([]byte(a.text[min(int(in.Offset), len(a.text)):])), fuse.OK
}

func without(text string) survive.Driver {
	return survive.Driver{FileSystem: func(survive.Site) survive.FileSystem {
		return &alone{fuse.NewDefaultRawFileSystem(), text}
	}}
}

func TestAGoodFileSystemPasses(t *testing.T) {
	t.Parallel()
	run, wait := beside(t)
	defer wait()
	for name, row := range map[string]Test{
		"volumes":       {Driver: mutant{}.driver()},
		"no volumes":    {Driver: without("text")},
		"a new version": {Driver: mutant{numbers: append(slices.Clone(files), "new")}.driver(), Before: mutant{}.driver()},
		"the driver's attributes": {
			Driver:  mutant{text: func(r volume.Record) (string, error) { return strings.Trim(string(r.Attributes), `"`), nil }}.driver(),
			Volumes: []volume.Record{{Attributes: []byte(`"a"`)}},
		},
		"a file of Reads": {Driver: survive.Driver{
			FileSystem: mutant{text: hosts}.driver().FileSystem,
			Reads:      func() []string { return []string{"/etc/hosts"} },
		}},
		"a state": {Driver: survive.Driver{State: 8, FileSystem: func(site survive.Site) survive.FileSystem {
			shared := (*atomic.Int64)(unsafe.Pointer(unsafe.SliceData(site.State)))
			shared.CompareAndSwap(0, began.UnixNano())
			return mutant{text: func(volume.Record) (string, error) { return fmt.Sprint(shared.Load()), nil }}.driver().FileSystem(site)
		}}},
		// Each answer is in time, but not all of them together.
		"many answers": {limit: 4 * time.Second, Driver: mutant{text: func(volume.Record) (string, error) {
			time.Sleep(time.Millisecond)
			return "text", nil
		}}.driver()},
		"a clock": {
			Driver:  mutant{text: func(volume.Record) (string, error) { return time.Now().String()[:19], nil }}.driver(),
			Changes: func(path string) bool { return path == "file" || strings.HasPrefix(path, "another") || path == "other" },
		},
	} {
		run(name, row.Run)
	}
}

// places are for subtests that run, more than there are processors: they wait most of the time.
var places = make(chan bool, 10)

// beside has subtests run beside each other.
func beside(t *testing.T) (run func(name string, f func(t *testing.T)), wait func()) {
	var all sync.WaitGroup
	return func(name string, f func(t *testing.T)) {
		all.Go(func() {
			places <- true
			defer func() { <-places }()
			t.Run(name, f)
		})
	}, all.Wait
}

func hosts(volume.Record) (string, error) {
	text, err := os.ReadFile("/etc/hosts")
	return string(text), err
}

func TestAMutantFails(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("to mount needs root")
	}
	attr := func(change func(a *fuse.Attr)) Test { return Test{Driver: mutant{attr: change}.driver()} }
	run, wait := beside(t)
	defer wait()
	number := uint32(began.UnixNano()) % 1000
	for name, row := range map[string]struct {
		Test
		want []string // in the problems
	}{
		"node ids of a table": {Test{Driver: survive.Driver{FileSystem: func(site survive.Site) survive.FileSystem {
			return &tabled{*mutant{}.driver().FileSystem(site).(*good)}
		}}}, []string{`its error is "stat: stale file handle", and was "none", from another process than that which opened it`, "with no table"}},
		"content of when the process began": {Test{Driver: mutant{
			text: func(volume.Record) (string, error) { return began.UTC().Format(time.RFC3339), nil },
		}.driver()}, []string{"its content is", "that a process has found when it began"}},
		"modified when the process began": {attr(func(a *fuse.Attr) { a.SetTimes(nil, &began, nil) }),
			[]string{"its modification time is", "Record.Mounted"}},
		"changed when the process began": {attr(func(a *fuse.Attr) { a.SetTimes(nil, nil, &began) }),
			[]string{"its change time is", "Record.Mounted"}},
		"modified now": {attr(func(a *fuse.Attr) { now := time.Now(); a.SetTimes(nil, &now, nil) }),
			[]string{"its modification time is", "of the same process"}},
		"a mode of the process":   {attr(func(a *fuse.Attr) { a.Mode ^= number & 0o777 }), []string{"its mode is", "constants"}},
		"an owner of the process": {attr(func(a *fuse.Attr) { a.Uid = number }), []string{"its owner is", "constants"}},
		"links of the process":    {attr(func(a *fuse.Attr) { a.Nlink = number }), []string{"its number of links is", "constants"}},
		"a size of the process":   {attr(func(a *fuse.Attr) { a.Size += uint64(number) }), []string{"its size is"}},
		"an inode of the process": {attr(func(a *fuse.Attr) { a.Ino += uint64(number) }), []string{"its inode number is", "from the volume's id"}},
		"a link's target of the process": {Test{Driver: mutant{
			target: func() string { return fmt.Sprint("file-", began.UnixNano()) },
		}.driver()}, []string{"its link's target is", "that a process has found when it began"}},
		"an order of the process": {Test{Driver: mutant{names: func(names []string) []string {
			rand.New(rand.NewPCG(uint64(number), 0)).Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
			return names
		}}.driver()}, []string{"its list of names is", "sort them"}},
		"a generation of the process": {Test{Driver: mutant{entry: func(out *fuse.EntryOut) { out.Generation = uint64(number) }}.driver()},
			[]string{`input/output error", and was "none", from another process than that which opened it`, "generation"}},
		"a listing in memory": {Test{Driver: survive.Driver{FileSystem: func(site survive.Site) survive.FileSystem {
			return &cursor{good: *mutant{}.driver().FileSystem(site).(*good), list: map[uint64][]string{}}
		}}}, []string{"its list of names is", "go by the offset"}},
		"handles": {Test{Driver: mutant{open: func(out *fuse.OpenOut) { out.Fh = 1 }}.driver()}, []string{"with a handle", "leave Fh at 0"}},
		"a file that is not in Reads": {Test{Driver: mutant{text: hosts}.driver()},
			[]string{"permission denied", "Driver.Reads"}},
		"a file that is not in Reads, and left out": {Test{Driver: mutant{names: func(names []string) []string {
			if _, err := os.ReadFile("/etc/hosts"); err != nil {
				return names[1:]
			}
			return names
		}}.driver()}, []string{"its list of names is", "confined", "Driver.Reads"}},
		"a file that is not in Reads, from the beginning": {Test{Driver: survive.Driver{FileSystem: func(site survive.Site) survive.FileSystem {
			if _, err := os.ReadFile("/etc/hosts"); err != nil {
				panic(err)
			}
			return mutant{}.driver().FileSystem(site)
		}}}, []string{"FileSystem panics", "permission denied", "Driver.Reads"}},
		"a file of Reads that others cannot read": {Test{Driver: survive.Driver{
			FileSystem: mutant{text: func(volume.Record) (string, error) {
				text, err := os.ReadFile("/etc/shadow")
				return string(text), err
			}}.driver().FileSystem,
			Reads: func() []string { return []string{"/etc/shadow"} },
		}}, []string{"permission denied", "let others read it"}},
		"a number with another meaning": {Test{Driver: mutant{numbers: append([]string{"new"}, files...)}.driver(), Before: mutant{}.driver()},
			[]string{"version before", "never give a number another meaning"}},
		"a mistake without volumes": {Test{Driver: without(began.String())}, []string{"file: its content is"}},
		"no answer": {Test{limit: 4 * time.Second, Driver: mutant{open: func(*fuse.OpenOut) { select {} }}.driver()},
			[]string{"gets no answer", "within four seconds"}},
		"an end": {Test{Driver: mutant{open: func(*fuse.OpenOut) { go panic("at Open") }}.driver()},
			[]string{"has ended", "panic: at Open"}},
		"a panic": {Test{Driver: mutant{open: func(*fuse.OpenOut) { panic("at Open") }}.driver()},
			[]string{"internal error", "at Open"}},
		"an error": {Test{Driver: mutant{text: func(volume.Record) (string, error) { return "", unix.ENXIO }}.driver()},
			[]string{"no such device or address"}},
		"no file system": {Test{}, []string{"Driver.FileSystem is nil"}},
	} {
		run(name, func(t *testing.T) {
			if raced && strings.Contains(name, "Reads") {
				t.Skip("with cgo, no process can be confined")
			}
			problems := strings.Join(row.problems(t), "\n")
			t.Log(problems)
			for _, want := range row.want {
				if !strings.Contains(problems, want) {
					t.Errorf("it does not say %q:\n%s", want, problems)
				}
			}
		})
	}
}

// A test has left a file open, and nobody serves any more: to close it would wait for ever.
func TestEndOfAFileSystemInUse(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("to mount needs root")
	}
	for name, unmounted := range map[string]bool{"mounted": false, "unmounted lazily": true} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			files := without("text").FileSystem(survive.Site{})
			mounted, err := Mount(files, dir)
			if err != nil {
				t.Fatal(err)
			}
			stop, err := mounted.Serve(files, func(problem string) { t.Error(problem) })
			if err != nil {
				t.Fatal(err)
			}
			fd, err := unix.Open(filepath.Join(dir, "file"), unix.O_RDONLY, 0)
			if err != nil {
				t.Error(err)
			}
			if unmounted {
				if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
					t.Error(err)
				}
			}
			stop() // now nobody answers
			if err := mounted.End(); err != nil {
				t.Error(err)
			}
			var stat unix.Stat_t
			if err := unix.Fstat(fd, &stat); err != unix.ENOTCONN && err != unix.ECONNABORTED {
				t.Errorf("stat of the file that is open: %v", err)
			}
			_ = unix.Close(fd) // returns, which is enough
			if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
				t.Errorf("the directory is still a mount point: %v, %v", left, err)
			}
		})
	}
}
