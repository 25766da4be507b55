package packet

import (
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// stuck is a file system with a link that is read once. A process that reads it again waits.
type stuck struct {
	fuse.RawFileSystem
	target string
	reads  atomic.Int32
	again  chan struct{} // closed when one waits
	end    chan struct{}
}

func (s *stuck) Lookup(_ <-chan struct{}, _ *fuse.InHeader, _ string, out *fuse.EntryOut) fuse.Status {
	out.NodeId, out.Attr = 2, fuse.Attr{Ino: 2, Mode: fuse.S_IFLNK | 0o777, Nlink: 1}
	return fuse.OK
}

func (s *stuck) Readlink(<-chan struct{}, *fuse.InHeader) ([]byte, fuse.Status) {
	if s.reads.Add(1) > 1 {
		close(s.again)
		<-s.end
	}
	return []byte(s.target), fuse.OK
}

// The kernel wakes the first of those that wait for a place. One that then takes none keeps nobody
// out.
func TestAWaiterThatTakesNoPlaceKeepsNobodyOut(t *testing.T) {
	path := filepath.Join(t.TempDir(), "socket")
	listener := fullListener(t, path)
	files := &stuck{RawFileSystem: fuse.NewDefaultRawFileSystem(), target: path, again: make(chan struct{}), end: make(chan struct{})}
	dir := t.TempDir()
	server, err := fuse.NewServer(files, dir, &fuse.MountOptions{DirectMountStrict: true})
	if err != nil {
		t.Fatal(err)
	}
	go server.Serve()
	if err := server.WaitMount(); err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	first := make(chan error, 1)
	go func() { first <- unix.Connect(fd, &unix.SockaddrUnix{Name: dir + "/link"}) }()
	defer func() {
		close(files.end)
		listener.Close()
		<-first
		unix.Close(fd)
		if err := server.Unmount(); err != nil {
			t.Error(err)
		}
	}()
	for deadline := time.Now().Add(time.Minute); files.reads.Load() == 0 && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	time.Sleep(100 * time.Millisecond) // it waits
	second := dialLong(path)
	time.Sleep(100 * time.Millisecond)
	conn, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	select {
	case <-files.again: // the first was woken
	case <-time.After(time.Minute):
		t.Fatal("the first is not woken")
	}
	select {
	case err := <-second:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(5 * time.Second):
		t.Error("the one behind it sleeps, and there is a place")
	}
}
