package fs

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/survive"
	"example.com/pod-info-fuse/survive/volume"
)

func TestTheProcessOfAThread(t *testing.T) {
	self := uint32(os.Getpid())
	var known threads
	done := make(chan bool)
	go func() {
		defer close(done)
		runtime.LockOSThread() // and never unlock: the thread ends with the goroutine
		thread := uint32(unix.Gettid())
		for range 2 {
			if got, err := known.group(thread); err != nil || got != self {
				t.Errorf("thread %d of process %d: %d, %v", thread, self, got, err)
			}
		}
		if got, err := leaderByProc(thread); err != nil || got != self { // before Linux 6.13
			t.Errorf("thread %d of process %d, by /proc: %d, %v", thread, self, got, err)
		}
		// The id was another process's before.
		known.guesses[thread%uint32(len(known.guesses))].Store(uint64(thread)<<32 | 1)
		if got, err := known.group(thread); err != nil || got != self {
			t.Errorf("thread %d of process %d, taken for one of 1: %d, %v", thread, self, got, err)
		}
	}()
	<-done
	for _, process := range []uint32{self, 1} {
		if got, err := known.group(process); err != nil || got != process {
			t.Errorf("process %d: %d, %v", process, got, err)
		}
	}
	for problem, thread := range map[string]uint32{"outside of the PID namespace": 0, "no such thread": 1<<31 - 2} {
		if got, err := known.group(thread); err != unix.ESRCH {
			t.Errorf("%s: %d, %v; want ESRCH", problem, got, err)
		}
	}
	if _, err := leaderByProc(1<<31 - 2); err != unix.ESRCH {
		t.Errorf("no such thread, by /proc: %v; want ESRCH", err)
	}
}

// listAll reads a directory through a buffer of a given size, as a kernel does.
func listAll(t *testing.T, fs *FS, node uint64, size int) (names []string) {
	t.Helper()
	for offset := uint64(0); ; {
		in := &fuse.ReadIn{InHeader: fuse.InHeader{NodeId: node}, Offset: offset}
		out := fuse.NewDirEntryList(make([]byte, size), offset)
		if status := fs.ReadDir(nil, in, out); !status.Ok() {
			t.Fatalf("offset %d: %v", offset, status)
		}
		entries, err := fuse.ParseDirEntries(out.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		if len(entries) == 0 {
			return names
		}
		for _, e := range entries {
			names = append(names, e.Name)
			offset = e.Off
		}
	}
}

func TestListingsAreTheSameInBuffersOfAnySize(t *testing.T) {
	store := volume.Store{Dir: t.TempDir()}
	want := []string{}
	var one volume.ID
	for i := range 30 {
		record := volume.Record{Dir: fmt.Sprintf("/volume-%d", i), PodUID: "1d1cd94a-5a5e-4b6c-a8c5-2c6c2ea0b4a1"}
		if err := store.Put(record); err != nil {
			t.Fatal(err)
		}
		one = record.ID()
		want = append(want, one.String())
	}
	slices.Sort(want)
	want = append([]string{".", ".."}, want...)
	fs := New(survive.Site{Volumes: store})
	for _, size := range []int{48, 100, 333, 4096} {
		if got := listAll(t, fs, fuse.FUSE_ROOT_ID, size); !slices.Equal(got, want) {
			t.Errorf("root, in %d bytes: %q", size, got)
		}
		if got := listAll(t, fs, volume.Node(one, directory), size); !slices.Equal(got, []string{".", "..", "pod.uid", "pod.nodename", "pod", "pid"}) {
			t.Errorf("volume, in %d bytes: %q", size, got)
		}
	}
}

func TestAListingGoesOnWhileVolumesComeAndGo(t *testing.T) {
	store := volume.Store{Dir: t.TempDir()}
	var ids []volume.ID
	for i := range 10 {
		record := volume.Record{Dir: fmt.Sprintf("/volume-%d", i), PodUID: "1d1cd94a-5a5e-4b6c-a8c5-2c6c2ea0b4a1"}
		if err := store.Put(record); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, record.ID())
	}
	slices.Sort(ids)
	fs := New(survive.Site{Volumes: store})
	// Somebody has listed up to the fifth, which is then unmounted.
	if err := store.Delete(ids[4]); err != nil {
		t.Fatal(err)
	}
	in := &fuse.ReadIn{InHeader: fuse.InHeader{NodeId: fuse.FUSE_ROOT_ID}, Offset: volume.FirstOffset + uint64(ids[4])}
	out := fuse.NewDirEntryList(make([]byte, 4096), in.Offset)
	if status := fs.ReadDir(nil, in, out); !status.Ok() {
		t.Fatal(status)
	}
	entries, err := fuse.ParseDirEntries(out.Bytes())
	if err != nil || len(entries) != 5 || entries[0].Name != ids[5].String() {
		t.Errorf("%v, %v; want five, beginning with %s", entries, err, ids[5])
	}
}

// Without direct I/O the page cache would hand one reader's answer to another,
// now and then.
func TestWhatTheKernelMayCache(t *testing.T) {
	fs := New(survive.Site{Volumes: volume.Store{Dir: t.TempDir()}})
	for k, direct := range map[kind]bool{podUID: false, podNodename: true, pod: true} {
		var out fuse.OpenOut
		in := &fuse.OpenIn{InHeader: fuse.InHeader{NodeId: volume.Node(1, k)}}
		if status := fs.Open(nil, in, &out); !status.Ok() {
			t.Fatal(status)
		}
		if got := out.OpenFlags&fuse.FOPEN_DIRECT_IO != 0; got != direct {
			t.Errorf("kind %d: direct I/O %v, want %v", k, got, direct)
		}
		if got := out.OpenFlags&fuse.FOPEN_KEEP_CACHE != 0; got == direct {
			t.Errorf("kind %d: keeps its pages: %v, want %v", k, got, !direct)
		}
	}
}

// Garbage would be collected while readers wait.
func TestWhatDependsOnTheReaderIsReadWithoutAllocations(t *testing.T) {
	store := volume.Store{Dir: t.TempDir()}
	record := volume.Record{Dir: "/d", PodUID: "11111111-2222-3333-4444-555555555555", Mounted: time.Now()}
	if err := store.Put(record); err != nil {
		t.Fatal(err)
	}
	fs := New(survive.Site{Volumes: store})
	buffer := make([]byte, 4096)
	for _, k := range []kind{pod, podNodename} {
		header := fuse.InHeader{NodeId: volume.Node(record.ID(), k), Caller: fuse.Caller{Pid: uint32(os.Getpid())}}
		stat, out := &fuse.GetAttrIn{InHeader: header}, &fuse.AttrOut{}
		read := &fuse.ReadIn{InHeader: header, Size: 4096, ReadFlags: fuse.READ_LOCKOWNER}
		n := testing.AllocsPerRun(100, func() {
			status := fs.GetAttr(nil, stat, out)
			result, failed := fs.Read(nil, read, buffer)
			if !status.Ok() || !failed.Ok() || result.Size() != int(out.Size) || out.Size < 2 || out.Mtime != uint64(record.Mounted.Unix()) {
				t.Errorf("kind %d: %v, %+v, %v, %v", k, status, out.Attr, failed, result)
			}
		})
		if n != 0 {
			t.Errorf("kind %d: %v allocations", k, n)
		}
	}
}

// A directory that is mounted for another pod keeps its id. The kernel asks for names first.
func TestTimesOfALiveFileAreThoseOfTheMountThatIsThere(t *testing.T) {
	store := volume.Store{Dir: t.TempDir()}
	fs := New(survive.Site{Volumes: store})
	for seconds := int64(1000); seconds < 1003; seconds++ {
		record := volume.Record{Dir: "/d", PodUID: "11111111-2222-3333-4444-555555555555", Mounted: time.Unix(seconds, 0)}
		if err := store.Put(record); err != nil {
			t.Fatal(err)
		}
		var entry fuse.EntryOut
		header := fuse.InHeader{NodeId: volume.Node(record.ID(), directory), Caller: fuse.Caller{Pid: uint32(os.Getpid())}}
		status := fs.Lookup(nil, &header, "pod", &entry)
		header.NodeId = entry.NodeId
		var out fuse.AttrOut
		if status = max(status, fs.GetAttr(nil, &fuse.GetAttrIn{InHeader: header}, &out)); !status.Ok() || out.Ctime != uint64(seconds) {
			t.Errorf("mounted at %d: %v, %d", seconds, status, out.Ctime)
		}
	}
}

func TestNodesOfAVolumeThatIsGoneAreStale(t *testing.T) {
	fs := New(survive.Site{Volumes: volume.Store{Dir: t.TempDir()}})
	node := volume.Node(volume.NewID("/gone"), podUID)
	if status := fs.GetAttr(nil, &fuse.GetAttrIn{InHeader: fuse.InHeader{NodeId: node}}, &fuse.AttrOut{}); status != fuse.Status(unix.ESTALE) {
		t.Errorf("GETATTR: %v, want ESTALE", status)
	}
	if _, status := fs.Read(nil, &fuse.ReadIn{InHeader: fuse.InHeader{NodeId: node}}, make([]byte, 100)); status != fuse.Status(unix.ESTALE) {
		t.Errorf("READ: %v, want ESTALE", status)
	}
	root := &fuse.InHeader{NodeId: fuse.FUSE_ROOT_ID}
	if status := fs.Lookup(nil, root, volume.NewID("/gone").String(), &fuse.EntryOut{}); status != fuse.ENOENT {
		t.Errorf("LOOKUP: %v, want ENOENT", status)
	}
}
