package node

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/connection"
	"example.com/pod-info-fuse/fs"
	"example.com/pod-info-fuse/mount"
	"example.com/pod-info-fuse/volume"
)

// start mounts the node's file system and starts its daemon. The caller holds
// the exclusive lock. When it fails, nothing of it is left.
func (n Node) start() (err error) {
	// What is left of a daemon that died, or that lost its mount.
	if err := n.clear(); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, n.clear())
		}
	}()
	device, err := mount.OpenDevice()
	if err != nil {
		return err
	}
	// From here on the daemon has it. When this process ends without a daemon,
	// so does the connection.
	defer unix.Close(device)
	if err := n.mountFS(device); err != nil {
		return err
	}
	agreed, err := connection.Handshake(device, fs.New(n.Volumes()), patience)
	if err != nil {
		return fmt.Errorf("mount %s: %w", n.fsPath(), err)
	}
	if err := volume.WriteFile(n.path("connection.json"), agreed.Encode()); err != nil {
		return fmt.Errorf("record the connection: %w", err)
	}
	return n.spawn(device)
}

func (n Node) mountFS(device int) error {
	if err := os.MkdirAll(n.fsPath(), 0o700); err != nil {
		return err
	}
	if err := os.MkdirAll(n.Volumes().Dir, 0o755); err != nil {
		return err
	}
	point, err := mount.Open(n.fsPath())
	if err != nil {
		return err
	}
	defer point.Close()
	return point.FUSE(device, n.Driver.String(), connection.MaxRead)
}

// clear removes the node mount and ends the daemon, in that order: a daemon
// whose mount goes away ends by itself.
func (n Node) clear() error {
	if err := n.detachFS(); err != nil {
		return err
	}
	return n.end()
}

func (n Node) detachFS() error {
	for {
		point, err := mount.Open(n.fsPath())
		if os.IsNotExist(err) {
			return nil
		} else if err != nil {
			return err
		}
		mounted, err := point.Mounted()
		if mounted && err == nil {
			err = point.Detach()
		}
		point.Close()
		if err != nil || !mounted {
			return err
		}
	}
}
