package survivetest

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/internal/devfuse"
	"example.com/pod-info-fuse/internal/mount"
	"example.com/pod-info-fuse/survive"
	"example.com/pod-info-fuse/survive/internal/connection"
	"example.com/pod-info-fuse/survive/internal/counters"
)

// Serve mounts a file system on a directory and serves it read-only in this process, by the
// same connection as the pair does, until it is unmounted. It returns when it is mounted.
// report is told of later problems.
func Serve(files survive.FileSystem, dir string, report func(problem string)) error {
	mounted, err := Mount(files, dir)
	if err != nil {
		return err
	}
	_, err = mounted.Serve(files, report)
	return err
}

// Mounted is a file system that is mounted, and that several instances of it can serve in turn. End
// it: a process that ends with a file open that it serves itself waits for its own answer, and
// nothing ends it.
type Mounted struct {
	device int
	agreed connection.Params
	dir    string

	serving sync.WaitGroup
	mu      sync.Mutex // guards stops
	stops   []func()
}

// Mount mounts a file system on a directory. Nobody serves it yet.
func Mount(files survive.FileSystem, dir string) (*Mounted, error) {
	device, err := mountOn(dir, connection.Default)
	if err != nil {
		return nil, err
	}
	agreed, err := connection.Handshake(device, files, connection.Default, time.Minute)
	if err != nil {
		return nil, err
	}
	return &Mounted{device: device, agreed: agreed, dir: dir}, nil
}

// End ends the file system, also one that is in use, or that was unmounted already: all requests
// end with an error, and it is unmounted. It waits for the instances that serve, but not for more
// than ten seconds.
func (m *Mounted) End() error {
	err := unmount(m.dir)
	m.mu.Lock()
	stops := m.stops
	m.stops = nil
	m.mu.Unlock()
	stopped := make(chan struct{})
	go func() {
		for _, stop := range stops {
			stop()
		}
		m.serving.Wait()
		unix.Close(m.device) // ends all requests of what was unmounted lazily
		close(stopped)
	}()
	select {
	case <-stopped:
	case <-time.After(10 * time.Second):
		err = errors.Join(err, errors.New("the file system has not answered a request for ten seconds, and is left behind"))
	}
	return err
}

// unmount ends all requests, and unmounts. What is not mounted is no error.
func unmount(dir string) error {
	err := unix.Unmount(dir, unix.MNT_FORCE|unix.MNT_DETACH)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOENT) {
		return nil
	}
	return os.NewSyscallError("unmount "+dir, err)
}

// Serve serves the file system in this process, beginning with what the instance before has read
// and not answered. stop ends that as a hand-over does, and returns when it has.
func (m *Mounted) Serve(files survive.FileSystem, report func(problem string)) (stop func(), err error) {
	buffers, err := connection.NewBuffers(2, m.agreed, report)
	if err != nil {
		return nil, err
	}
	c, err := connection.New(m.device, m.agreed, files, buffers, new(counters.Counters), report)
	if err != nil {
		return nil, err
	}
	if err := c.Recover(m.dir); err != nil {
		c.Close()
		return nil, err
	}
	ended := make(chan struct{})
	m.serving.Go(func() {
		defer close(ended)
		if err := c.Serve(); err != nil {
			report(fmt.Sprintf("serve the file system: %v", err))
		}
	})
	m.mu.Lock()
	m.stops = append(m.stops, c.Stop)
	m.mu.Unlock()
	return func() {
		c.Stop()
		<-ended
	}, nil
}

// mountOn mounts a file system on a directory, and returns the descriptor that serves it.
func mountOn(dir string, options connection.Options) (device int, err error) {
	point, err := mount.Open(dir)
	if err != nil {
		return -1, err
	}
	defer point.Close()
	if device, err = devfuse.Open(unix.O_NONBLOCK); err != nil {
		return -1, err
	}
	err = point.FUSE(device, mount.Options{Type: "fuse.survivetest", Source: "survivetest", MaxRead: options.MaxRead})
	if err != nil {
		unix.Close(device)
		return -1, err
	}
	return device, nil
}

// MaxRead is the largest read that Serve answers, in bytes, as it is for a driver that has
// not chosen another size.
var MaxRead = connection.Default.MaxRead
