package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/cgroup"
	"example.com/pod-info-fuse/connection"
	"example.com/pod-info-fuse/daemon"
	"example.com/pod-info-fuse/fs"
	"example.com/pod-info-fuse/metrics"
	"example.com/pod-info-fuse/mount"
	"example.com/pod-info-fuse/volume"
)

// start mounts the node's file system and starts its daemon. The caller holds
// the exclusive lock, and heals next. When it fails, nothing of it is left.
func (n Node) start() (err error) {
	// What is left of a daemon that died, or that lost its mount.
	if err := n.clear(); err != nil {
		return err
	}
	if err := n.makeDirs(); err != nil {
		return err
	}
	if err := n.noteUnhealed(); err != nil {
		return err
	}
	if err := metrics.CreateCalls(n.CallsFile()); err != nil {
		return fmt.Errorf("count call-outs: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, n.clear())
		}
	}()
	device, err := n.mountFS()
	if err != nil {
		return err
	}
	// From here on the daemon has it. When this process ends without a daemon,
	// so does the connection.
	defer unix.Close(device)
	agreed, err := connection.Handshake(device, fs.New(n.Volumes(), ""), patience)
	if err != nil {
		return fmt.Errorf("mount %s: %w", n.fsPath(), err)
	}
	if err := volume.WriteFile(n.path("connection.json"), agreed.Encode()); err != nil {
		return fmt.Errorf("record the connection: %w", err)
	}
	return n.startDaemon(device)
}

// startDaemon starts the daemon's pair on the device and returns when it
// serves.
func (n Node) startDaemon(device int) error {
	lock, err := os.OpenFile(n.path("daemon.lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer lock.Close()
	control, err := n.listen()
	if err != nil {
		return fmt.Errorf("make the control socket: %w", err)
	}
	defer control.Close()
	log, err := n.log.Open()
	if err != nil {
		return fmt.Errorf("open the log: %w", err)
	}
	defer log.Close()
	resources := daemon.Resources{Device: device, Lock: lock, Control: control, Log: log}
	if err := n.noteFacts(n.factsIdentity()); err != nil {
		return err
	}
	return daemon.Start(n.serveArgs(), resources, n.escape)
}

// listen makes the control socket. Only its owner, root, can connect to it.
func (n Node) listen() (*os.File, error) {
	if err := os.Remove(n.socket()); err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	listener, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: n.socket(), Net: "unixpacket"})
	if err != nil {
		return nil, err
	}
	defer listener.Close()
	listener.SetUnlinkOnClose(false)
	if err := os.Chmod(n.socket(), 0o600); err != nil {
		return nil, err
	}
	return listener.File()
}

// escape moves a process of the daemon out of the cgroup of this one, which is
// the kubelet's: systemd kills everything in it when it restarts the kubelet.
// The error is for one that could not be moved.
func (n Node) escape(pid int) error {
	where, err := cgroup.Escape(context.Background(), n.Driver.String(), pid)
	if err != nil {
		n.Log("move it out of the kubelet's cgroup: %v", err)
	}
	if where == "" {
		return err
	}
	n.Log("its cgroup is %s", where)
	return nil
}

// mountFS mounts the node's file system and returns the descriptor that serves it.
func (n Node) mountFS() (device int, err error) {
	point, err := mount.Open(n.fsPath())
	if err != nil {
		return -1, err
	}
	defer point.Close()
	return n.mountLabelled(point)
}

// clear removes the node mount and ends the daemon. Volumes that are bound
// somewhere keep its connection alive, and are dead afterwards.
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
