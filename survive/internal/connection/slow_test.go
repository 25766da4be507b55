package connection_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/fs"
	"example.com/pod-info-fuse/survive/internal/connection"
)

// slowNames is a file system that looks names up on a disk. For those that begin with "hangs"
// that does not answer until it is told.
type slowNames struct {
	*fs.FS
	asked chan struct{} // for such a name
	wait  chan struct{}
	goOn  func()
}

func (slowNames) NeverBlocks(node uint64, names bool) bool {
	return !names || node == fuse.FUSE_ROOT_ID
}

func (s slowNames) Lookup(cancel <-chan struct{}, header *fuse.InHeader, name string, out *fuse.EntryOut) fuse.Status {
	if strings.HasPrefix(name, "hangs") {
		s.asked <- struct{}{}
		<-s.wait
	}
	return s.FS.Lookup(cancel, header, name, out)
}

// hang waits until such a name is looked up.
func (s slowNames) hang(t *testing.T) {
	t.Helper()
	select {
	case <-s.asked:
	case <-time.After(forever):
		t.Fatal("nobody is asked")
	}
}

// withSlowNames is the file system of the volumes so.
func (m *mounted) withSlowNames() slowNames {
	fs := slowNames{FS: m.fs, asked: make(chan struct{}, hammers), wait: make(chan struct{})}
	fs.goOn = sync.OnceFunc(func() { close(fs.wait) })
	return fs
}

// serveSlowNames serves it until the test ends.
func (m *mounted) serveSlowNames() (slowNames, *connection.Connection) {
	m.t.Helper()
	fs := m.withSlowNames()
	c := m.serveWith(fs)
	m.t.Cleanup(fs.goOn)
	return fs, c
}

// ask looks up a name that is not in the volume.
func (m *mounted) ask(name string) (answer chan error) {
	answer = make(chan error, 1)
	go func() {
		var stat unix.Stat_t
		answer <- unix.Stat(filepath.Join(m.volume, name), &stat)
	}()
	return answer
}

// However many wait for a disk, whoever waits for none is answered.
func TestWhatIsSlowLeavesAWorkerForWhatIsPrompt(t *testing.T) {
	m := mountOne(t)
	if m.agreed.Minor < 40 {
		t.Skip("requests wait for their turns on Linux 6.9 and later")
	}
	connection.SetTooLong(t, forever)
	fs, _ := m.serveSlowNames()
	fd := m.pod(m.volume)
	var answers []chan error
	for i := range hammers {
		answers = append(answers, m.ask(fmt.Sprint("hangs", i)))
	}
	fs.hang(t)
	for range 100 {
		m.read(fd)
		time.Sleep(slowTime)
	}
	if len(fs.asked) > 0 {
		t.Error("more than one is answered at a time")
	}
	fs.goOn()
	for _, answer := range answers {
		if err := await(t, answer); err != unix.ENOENT {
			t.Error(err)
		}
	}
}

// One that hangs does not stop others that are slow, nor do these stop what is prompt.
func TestOneThatHangsStopsNoOther(t *testing.T) {
	m := mountOne(t)
	connection.SetTooLong(t, 10*slowTime)
	fs, _ := m.serveSlowNames()
	fd := m.pod(m.volume)
	hangs := m.ask("hangs")
	fs.hang(t)
	for range 10 {
		for _, answer := range []chan error{m.ask("one"), m.ask("another")} {
			m.read(fd)
			if err := await(t, answer); err != unix.ENOENT {
				t.Error(err)
			}
		}
	}
	fs.goOn()
	if err := await(t, hangs); err != unix.ENOENT {
		t.Error(err)
	}
}

// A server that stops answers all that it has read, and the next one the others.
func TestAServerThatStopsAnswersWhatIsSlow(t *testing.T) {
	m := mountOne(t)
	fs := m.withSlowNames()
	c, wait := m.serveFS(fs)
	var answers []chan error
	for i := range hammers {
		answers = append(answers, m.ask(fmt.Sprint("hangs", i)))
	}
	fs.hang(t)
	time.Sleep(20 * slowTime) // the others are read, too
	c.Stop()
	fs.goOn()
	if err := wait(); err != nil {
		t.Error(err)
	}
	m.serveWith(m.fs)
	for _, answer := range answers {
		if err := await(t, answer); err != unix.ENOENT {
			t.Error(err)
		}
	}
}
