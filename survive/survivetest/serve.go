package survivetest

import (
	"fmt"
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

// Mounted is a file system that is mounted, and that several instances of it can serve in turn.
// Close what is open there and unmount it, with MNT_FORCE where nobody serves, before the process
// ends: a process that ends with a file open that it serves itself waits for its own answer, and
// nothing ends it.
type Mounted struct {
	device int
	agreed connection.Params
	dir    string
}

// Mount mounts a file system on a directory. Nobody serves it yet.
func Mount(files survive.FileSystem, dir string) (*Mounted, error) {
	device, err := mountOn(dir, connection.Default)
	if err != nil {
		return nil, err
	}
	agreed, err := connection.Handshake(device, dir, files, connection.Default, time.Minute)
	if err != nil {
		return nil, err
	}
	return &Mounted{device, agreed, dir}, nil
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
	go func() {
		defer close(ended)
		if err := c.Serve(); err != nil {
			report(fmt.Sprintf("serve the file system: %v", err))
		}
	}()
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
