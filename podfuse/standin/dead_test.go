package standin

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/internal/devfuse"
	"example.com/pod-info-fuse/podfuse"
	"example.com/pod-info-fuse/survive/volume"
)

// deadOnes are connections of dead programs, without a kernel.
func deadOnes(t *testing.T, s *service) *connections {
	t.Helper()
	w := &world{t: t, wait: time.Minute}
	w.o = newOutages(w)
	t.Cleanup(w.o.end)
	s.outages = w.o
	c := &connections{service: s, volumes: map[volume.ID][]*dead{}}
	s.dead = c
	t.Cleanup(c.end)
	return c
}

// pipe is in the place of a connection: nothing comes from it, and answers go to the second end.
func pipe(t *testing.T) (ours, theirs *os.File) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	ours, theirs = os.NewFile(uintptr(fds[0]), "ours"), os.NewFile(uintptr(fds[1]), "theirs")
	t.Cleanup(func() { ours.Close(); theirs.Close() })
	return ours, theirs
}

// A pod whose volumes have as many dead programs as are kept leaves room for those of another.
func TestOthersDeadProgramsAreKept(t *testing.T) {
	s := &service{fs: &FileSystem{layout: podfuse.Layout{RunDir: t.TempDir()}}}
	c := deadOnes(t, s)
	clients := s.fs.layout.Clients()
	if err := os.MkdirAll(clients.Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	die := func(pod, name string, generation uint64) volume.ID {
		t.Helper()
		record := clientRecord
		record.PodUID, record.Dir = pod, "/"+name
		if err := clients.Put(record); err != nil {
			t.Fatal(err)
		}
		file, _ := pipe(t)
		c.add(record.ID(), generation, time.Now(), file)
		return record.ID()
	}
	for number := range mostDeadOfAll {
		die(podUID, fmt.Sprint(number), 1)
	}
	for generation := range uint64(mostDead) {
		id := die(otherUID, "volume", generation+1)
		c.mu.Lock()
		if got := len(c.volumes[id]); got != int(generation)+1 {
			t.Errorf("%d dead programs are kept, want %d", got, generation+1)
		}
		c.mu.Unlock()
	}
	eventually(t, "the hostile pod's are closed", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.count <= mostDeadOfAll
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.volumes) != mostDeadOfAll-mostDead+1 {
		t.Errorf("%d volumes have dead programs", len(c.volumes))
	}
}

// Looks at those who ask dead programs are made one after the other, whichever connection they ask
// by: each that waits for the kernel takes a thread. Nobody waits for a look who reads requests.
func TestLooksOfDeadConnectionsAreOneAfterTheOther(t *testing.T) {
	files := tree{}.process(t, "101", "systemd", "program").process(t, "102", "systemd", "program")
	s := &service{fs: &FileSystem{layout: podfuse.Layout{RunDir: t.TempDir()}}, processes: files.processes(t)}
	c := deadOnes(t, s)
	server := serverRecord
	var err error
	if server.Attributes, err = json.Marshal(podfuse.Attributes{Format: 1, Serves: "data"}); err == nil {
		err = errors.Join(os.MkdirAll(s.fs.layout.ServerVolumes().Dir, 0o700), s.fs.layout.ServerVolumes().Put(server))
	}
	slow := filepath.Join(s.processes.proc, "101/mountinfo")
	if err = errors.Join(err, os.Remove(slow), unix.Mkfifo(slow, 0o600)); err != nil {
		t.Fatal(err)
	}
	ask := func(generation uint64, thread uint32) {
		ours, _ := pipe(t)
		d := &dead{connections: c, volume: clientRecord.ID(), generation: generation, file: ours, again: map[uint64]bool{}}
		s.outages.died(d.volume, generation, time.Now(), d)
		in := fuse.GetAttrIn{InHeader: fuse.InHeader{Opcode: devfuse.OpGetAttr, Unique: 2}}
		in.Pid = thread
		d.handle(devfuse.Bytes(&in))
	}
	ask(1, 101)
	var writer *os.File
	if writer, err = os.OpenFile(slow, os.O_WRONLY, 0); err != nil { // waits until it is looked at
		t.Fatal(err)
	}
	ask(2, 102)
	time.Sleep(while / 3)
	s.outages.mu.Lock()
	held := len(s.outages.callers)
	s.outages.mu.Unlock()
	if held != 2 {
		t.Errorf("%d wait, while one is looked at", held)
	}
	if _, err := writer.WriteString(files["101/mountinfo"]); err != nil {
		t.Error(err)
	}
	writer.Close()
	eventually(t, "both are answered", func() bool {
		s.outages.mu.Lock()
		defer s.outages.mu.Unlock()
		return len(s.outages.callers) == 0
	})
}
