package iofs

import (
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/survive"
	"example.com/pod-info-fuse/survive/survivetest"
	"example.com/pod-info-fuse/survive/volume"
)

var modified = time.Date(2024, 2, 29, 12, 34, 56, 0, time.UTC)

// text is content in which every offset can be told from the others.
func text(size int) []byte {
	var b bytes.Buffer
	for b.Len() < size {
		fmt.Fprintf(&b, "%d\n", b.Len())
	}
	return b.Bytes()[:size]
}

// content is a tree of all that there is to serve, with a large file, and a directory of many.
func content(large, many int) fstest.MapFS {
	all := fstest.MapFS{
		"empty":                         {Mode: 0o444, ModTime: modified},
		"large":                         {Data: text(large), Mode: 0o644, ModTime: modified},
		"d/e/f/deep":                    {Data: []byte("deep"), Mode: 0o755, ModTime: modified},
		"link":                          {Data: []byte("d/e/f/deep"), Mode: fs.ModeSymlink | 0o777, ModTime: modified},
		"d/" + strings.Repeat("n", 255): {Data: []byte("long"), Mode: 0o444, ModTime: modified},
	}
	for i := range many {
		all[fmt.Sprintf("many/ä %d", i)] = &fstest.MapFile{Data: text(i), Mode: 0o444, ModTime: modified}
	}
	return all
}

// zipped is a tree as a zip archive.
func zipped(t *testing.T, all fstest.MapFS) *zip.Reader {
	t.Helper()
	var archive bytes.Buffer
	w := zip.NewWriter(&archive)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		header := &zip.FileHeader{Name: name, Modified: modified, Method: zip.Deflate}
		header.SetMode(all[name].Mode)
		entry, err := w.CreateHeader(header)
		if err == nil {
			_, err = entry.Write(all[name].Data)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	r, err := zip.NewReader(bytes.NewReader(archive.Bytes()), int64(archive.Len()))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// unpacked is a tree as files.
func unpacked(t *testing.T, all fstest.MapFS) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for name, file := range all {
		path := filepath.Join(dir, name)
		err := os.MkdirAll(filepath.Dir(path), 0o755)
		if err == nil && file.Mode&fs.ModeSymlink != 0 {
			err = os.Symlink(string(file.Data), path)
		} else if err == nil {
			err = os.WriteFile(path, file.Data, file.Mode)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func driver(content fs.FS) survive.Driver {
	return survive.Driver{FileSystem: func(site survive.Site) survive.FileSystem {
		return New(site, func() (fs.FS, error) { return content, nil })
	}}
}

func TestTreesSurvive(t *testing.T) {
	all := content(20_000, 5)        // more than the kernel reads at a time
	const variable = "IOFS_TEST_DIR" // of the environment: all processes have the directory of the first one
	dir := os.Getenv(variable)
	if dir == "" {
		dir = unpacked(t, all)
		if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil { // they are of a user without rights
			t.Fatal(err)
		}
		t.Setenv(variable, dir)
	}
	for name, content := range map[string]fs.FS{"DirFS": os.DirFS(dir), "zip": zipped(t, all)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			driver := driver(content)
			driver.Reads = func() []string { return []string{dir} }
			survivetest.Test{Driver: driver}.Run(t)
		})
	}
}

// site has a volume.
func site(t *testing.T) (survive.Site, volume.Record) {
	record := volume.Record{Dir: "/pods/1/volumes/x/a", PodUID: "1d1cd94a-5a5e-4b6c-a8c5-2c6c2ea0b4a1", Mounted: modified}
	site := survive.Site{Volumes: volume.Store{Dir: t.TempDir()}, Report: func(problem string) { t.Errorf("reported: %s", problem) }}
	if err := site.Volumes.Put(record); err != nil {
		t.Fatal(err)
	}
	return site, record
}

// mounted is where the content is mounted.
func mounted(t *testing.T, content fs.FS) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("to mount needs root")
	}
	site, record := site(t)
	dir := t.TempDir()
	if err := survivetest.Serve(driver(content).FileSystem(site), dir, func(problem string) { t.Error(problem) }); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	return filepath.Join(dir, record.ID().String())
}

// readFile reads a file without the runtime's poller, which would ask the file system from a thread
// that this process needs to answer.
func readFile(path string) ([]byte, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	file := os.NewFile(uintptr(fd), path)
	defer file.Close()
	return io.ReadAll(file)
}

// What is mounted is what the tree has, whatever that is made of.
func TestAMountShowsTheTree(t *testing.T) {
	all := content(300_000, 40)
	for name, tree := range map[string]fs.FS{"MapFS": all, "DirFS": os.DirFS(unpacked(t, all)), "zip": zipped(t, all)} {
		t.Run(name, func(t *testing.T) {
			dir := mounted(t, tree)
			for name, want := range all {
				path := filepath.Join(dir, name)
				info, err := os.Lstat(path)
				if err != nil {
					t.Error(err)
					continue
				}
				wanted, err := fs.Lstat(tree, name)
				if _, reads := tree.(fs.ReadLinkFS); !reads {
					wanted, err = fs.Stat(tree, name)
				}
				if err != nil {
					t.Fatal(err)
				}
				if info.Mode() != wanted.Mode() || info.Size() != wanted.Size() || !info.ModTime().Equal(wanted.ModTime()) {
					t.Errorf("%s is %v, %d bytes, of %v; want %v, %d, %v", name, info.Mode(), info.Size(), info.ModTime(), wanted.Mode(), wanted.Size(), wanted.ModTime())
				}
				read := readFile
				if want.Mode&fs.ModeSymlink != 0 {
					read = func(path string) ([]byte, error) { target, err := os.Readlink(path); return []byte(target), err }
				}
				if got, err := read(path); err != nil || !bytes.Equal(got, want.Data) {
					t.Errorf("%s has %.40q, %v; want %.40q", name, got, err, want.Data)
				}
			}
			found := 0
			err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
				if err == nil && !d.IsDir() {
					found++
				}
				return err
			})
			if err != nil || found != len(all) {
				t.Errorf("%d files, %v; want %d", found, err, len(all))
			}
			if stat := new(unix.Stat_t); unix.Stat(filepath.Join(dir, "d"), stat) != nil || stat.Nlink != 3 {
				t.Errorf("d has %d links, want 3: find(1) counts directories by them", stat.Nlink)
			}
		})
	}
}

func TestADirectoryOfManyNamesIsListedByOffset(t *testing.T) {
	const names = 100_000
	all := fstest.MapFS{}
	for i := range names {
		all[fmt.Sprintf("dir/%06d", i)] = &fstest.MapFile{Mode: 0o444}
	}
	dir := mounted(t, all)
	entries, err := os.ReadDir(filepath.Join(dir, "dir"))
	if err != nil || len(entries) != names {
		t.Fatalf("%d names, %v", len(entries), err)
	}
	for i, entry := range entries {
		if want := fmt.Sprintf("%06d", i); entry.Name() != want {
			t.Fatalf("name %d is %q, want %q", i, entry.Name(), want)
		}
	}
}

// streams has files that can only be read from the beginning, and counts.
type streams struct {
	fs.FS
	opened, closed, reads, bytes int
}

func (s *streams) Open(name string) (fs.File, error) {
	s.opened++
	file, err := s.FS.Open(name)
	return stream{file, s}, err
}

type stream struct {
	fs.File
	of *streams
}

func (s stream) Read(buffer []byte) (int, error) {
	n, err := s.File.Read(buffer)
	s.of.reads++
	s.of.bytes += n
	return n, err
}

func (s stream) Close() error {
	s.of.closed++
	return s.File.Close()
}

// A request for the end of a file may be for one byte. What is before it is not read byte by byte.
func TestWhatIsSkippedIsReadInLargePieces(t *testing.T) {
	all := content(300_000, 40)
	tree, err := newTree(all)
	if err != nil {
		t.Fatal(err)
	}
	at, from := tree.child(&tree.nodes[0], "large"), &streams{FS: all}
	buffer := make([]byte, 1)
	if _, err := new(files).read(from, at, buffer, 299_999); err != nil || buffer[0] != all["large"].Data[299_999] {
		t.Fatalf("%v, %v", buffer, err)
	}
	if from.reads > 10 {
		t.Errorf("it was read %d times", from.reads)
	}
}

func TestAStreamIsReadInOrderOnce(t *testing.T) {
	all := content(300_000, 40)
	tree, err := newTree(all)
	if err != nil {
		t.Fatal(err)
	}
	want, from := all["large"].Data, &streams{FS: all}
	at := tree.child(&tree.nodes[0], "large")
	var read files
	pieces := func(offsets ...int) {
		t.Helper()
		for _, offset := range offsets {
			buffer := make([]byte, 10_000)
			n, err := read.read(from, at, buffer, int64(offset))
			if err != nil || !bytes.Equal(buffer[:n], want[offset:min(offset+len(buffer), len(want))]) {
				t.Fatalf("at %d: %d bytes, %v", offset, n, err)
			}
		}
	}
	var order []int
	for offset := 0; offset < len(want); offset += 10_000 {
		order = append(order, offset)
	}
	pieces(order...)
	if from.opened != 1 || from.closed != 1 {
		t.Errorf("it was opened %d times, and closed %d times", from.opened, from.closed)
	}
	pieces(255_555, 0, 123_456) // the first one is after the end of the stream, the second before the other's
	before := from.bytes
	pieces(290_000) // by the stream that is nearest
	if more := from.bytes - before; more != 300_000-265_555 {
		t.Errorf("%d bytes were read for the last ones", more)
	}
	pieces(299_999)
	if n, err := read.read(from, at, make([]byte, 10), 300_000); n != 0 || err != nil {
		t.Errorf("at the end: %d bytes, %v", n, err)
	}
	if from.opened != 3 {
		t.Errorf("it was opened %d times in all, want 3", from.opened)
	}
}

func TestTheNumberOfOpenFilesIsLimited(t *testing.T) {
	tree, err := newTree(content(300_000, 40))
	if err != nil {
		t.Fatal(err)
	}
	var read files
	from := &streams{FS: tree.content}
	for i := range tree.nodes {
		if at := &tree.nodes[i]; !at.isDir() && at.size > 1 {
			if _, err := read.read(from, at, make([]byte, 1), 0); err != nil {
				t.Fatal(err)
			}
		}
	}
	if open := from.opened - from.closed; open != mostIdle {
		t.Errorf("%d of %d are open, want %d", open, from.opened, mostIdle)
	}
}

// A process that takes five seconds for an answer counts as hung.
func TestAStreamThatTakesLongGoesOn(t *testing.T) {
	defer func(before time.Duration) { skipTime = before }(skipTime)
	skipTime = 0
	all := content(300_000, 40)
	tree, err := newTree(all)
	if err != nil {
		t.Fatal(err)
	}
	at, from := tree.child(&tree.nodes[0], "large"), &streams{FS: all}
	var read files
	buffer := make([]byte, 1000)
	if _, err := read.read(from, at, buffer, 200_000); !errors.Is(err, errLate) {
		t.Fatalf("%v, want %v", err, errLate)
	}
	read.idle[0].offset += int64(must(read.idle[0].Read(make([]byte, 200_000)))(t))
	if n, err := read.read(from, at, buffer, 200_000); err != nil || !bytes.Equal(buffer[:n], all["large"].Data[200_000:201_000]) || from.opened != 1 {
		t.Errorf("%d bytes, %v, opened %d times", n, err, from.opened)
	}
	if status := (&FS{}).statusOf(at, errLate); status != fuse.EINTR {
		t.Errorf("the reader gets %v", status)
	}
}

func must[T any](value T, err error) func(t *testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

// reader is a file of another content than its attributes say.
type reader struct {
	fs.File
	io.Reader
}

func (r reader) Read(p []byte) (int, error) { return r.Reader.Read(p) }

type wrong struct {
	fs.FS
	content func() io.Reader
}

func (w wrong) Open(name string) (fs.File, error) {
	file, err := w.FS.Open(name)
	return reader{file, w.content()}, err
}

func TestWrongContentIsAnError(t *testing.T) {
	right := []byte("0123456789")
	tree, err := newTree(fstest.MapFS{"file": {Data: right}})
	if err != nil {
		t.Fatal(err)
	}
	at := &tree.nodes[1]
	for name, row := range map[string]struct {
		content io.Reader
		want    string
	}{
		"short":    {bytes.NewReader(right[:9]), "it is shorter than 10 bytes: unexpected EOF"},
		"long":     {bytes.NewReader([]byte("01234567890")), "it is longer than 10 bytes"},
		"checksum": {io.MultiReader(bytes.NewReader(right), failing{zip.ErrChecksum}), zip.ErrChecksum.Error()},
	} {
		var read files
		_, err := read.read(wrong{tree.content, func() io.Reader { return row.content }}, at, make([]byte, 20), 0)
		if err == nil || err.Error() != row.want {
			t.Errorf("%s: %v, want %s", name, err, row.want)
		}
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

// The kernel must not get one content for a part of a file, and another one for the rest.
func TestAFileOfAnotherContentIsAnotherNode(t *testing.T) {
	site, record := site(t)
	fileSystem := func(content fs.FS) survive.FileSystem { return driver(content).FileSystem(site) }
	before := fileSystem(fstest.MapFS{"changed": {Data: []byte("one")}, "kept": {Data: []byte("k")}})
	after := fileSystem(fstest.MapFS{"changed": {Data: []byte("other")}, "kept": {Data: []byte("k")}, "new": {}})
	for name, want := range map[string]fuse.Status{"changed": fuse.Status(unix.ESTALE), "kept": fuse.OK} {
		var entry fuse.EntryOut
		if status := before.Lookup(nil, &fuse.InHeader{NodeId: volume.Node(record.ID(), 0)}, name, &entry); !status.Ok() {
			t.Fatal(status)
		}
		if _, status := after.Read(nil, &fuse.ReadIn{InHeader: fuse.InHeader{NodeId: entry.NodeId}}, make([]byte, 10)); status != want {
			t.Errorf("%s: %v, want %v", name, status, want)
		}
	}
}

func TestTwoPathsOfOneIDAreRefused(t *testing.T) {
	tree := tree{nodes: []node{{path: "."}, {path: "a", hash: 7}, {path: "b", hash: 8}, {path: "c", hash: 7}}}
	if err := tree.index(); err == nil || err.Error() != `"a" and "c" have the same node id; rename one of them` {
		t.Errorf("error %v", err)
	}
}

func TestWhatCannotBeShownIsLeftOut(t *testing.T) {
	site, record := site(t)
	f := New(site, func() (fs.FS, error) {
		return fstest.MapFS{
			"d/device": {Mode: fs.ModeDevice | 0o666}, "d/" + strings.Repeat("n", 256): {}, "d/nul\x00": {},
			"d/setuid": {Mode: fs.ModeSetuid | 0o755},
		}, nil
	})
	var dir, entry fuse.EntryOut
	f.Lookup(nil, &fuse.InHeader{NodeId: volume.Node(record.ID(), 0)}, "d", &dir)
	status := f.Lookup(nil, &fuse.InHeader{NodeId: dir.NodeId}, "setuid", &entry)
	if !status.Ok() || entry.Mode != syscall.S_IFREG|0o755 {
		t.Errorf("%v, mode %o", status, entry.Mode)
	}
	if status := f.Lookup(nil, &fuse.InHeader{NodeId: dir.NodeId}, "device", &entry); status != fuse.ENOENT {
		t.Errorf("a device: %v", status)
	}
}

// listed is a tree whose root has these names, in this order.
type listed struct {
	fstest.MapFS
	names []string
}

func (l listed) ReadDir(name string) (entries []fs.DirEntry, err error) {
	if name != "." {
		return l.MapFS.ReadDir(name)
	}
	for _, name := range l.names {
		info, err := l.Stat(name)
		if err != nil {
			return nil, err
		}
		entries = append(entries, fs.FileInfoToDirEntry(info))
	}
	return entries, nil
}

func TestNamesAreFoundInAnyOrder(t *testing.T) {
	all := listed{fstest.MapFS{"a": {}, "b": {}, "c": {}}, []string{"c", "a", "b"}}
	tree, err := newTree(all)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range all.names {
		if tree.child(&tree.nodes[0], name) == nil {
			t.Errorf("%s is not found", name)
		}
	}
	all.names = append(all.names, "a")
	if _, err := newTree(all); err == nil || err.Error() != `directory "." has two of the name "a"` {
		t.Errorf("the same name twice: %v", err)
	}
}

func TestATreeThatCannotBeReadFailsTheMount(t *testing.T) {
	defer func() {
		if r := recover(); r == nil || r.(error).Error() != "the tree cannot be served: no such archive" {
			t.Errorf("panic %v", r)
		}
	}()
	site, _ := site(t)
	New(survive.Site{Volumes: site.Volumes, CallOut: true}, func() (fs.FS, error) {
		t.Error("a call-out opens it")
		return fstest.MapFS{}, nil
	})
	New(site, func() (fs.FS, error) { return nil, errors.New("no such archive") })
}
