package survivetest

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/internal/mount"
	"example.com/pod-info-fuse/survive"
	"example.com/pod-info-fuse/survive/internal/connection"
)

// Serve mounts a file system on a directory and serves it read-only in this process, by the
// same connection as the pair does, until it is unmounted. It returns when it is mounted.
// report is told of later problems.
func Serve(files survive.FileSystem, dir string, report func(problem string)) error {
	options := connection.Default
	device, err := mountOn(dir, options)
	if err != nil {
		return err
	}
	agreed, err := connection.Handshake(device, dir, files, options, time.Minute)
	if err != nil {
		return err
	}
	buffers, err := connection.NewBuffers(2, agreed, report)
	if err != nil {
		return err
	}
	c, err := connection.New(device, agreed, files, buffers, report)
	if err != nil {
		return err
	}
	go func() {
		if err := c.Serve(); err != nil {
			report(fmt.Sprintf("serve the file system: %v", err))
		}
	}()
	return nil
}

// mountOn mounts a file system on a directory, and returns the descriptor that serves it.
func mountOn(dir string, options connection.Options) (device int, err error) {
	point, err := mount.Open(dir)
	if err != nil {
		return -1, err
	}
	defer point.Close()
	if device, err = mount.OpenDevice(); err != nil {
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
