package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// runtimeDir is systemd's.
const runtimeDir = "/run/systemd"

var errNoSystemd = errors.New("no systemd runs")

// visible reports whether systemd runs and means the same process as we do when
// it hears a PID. The error is errNoSystemd where it does not run, which is
// the rule of sd_booted(3): there is no directory /run/systemd/system.
//
// A container may have the host's /run/systemd, but PIDs of its own. There,
// systemd would put some other process into the scope, and kill it at shutdown.
// The kernel tells us the listener's PID in our own numbers (SO_PEERCRED in
// unix(7)): systemd must be process 1 to us as well.
func visible(runtime string) error {
	if info, err := os.Lstat(filepath.Join(runtime, "system")); err != nil || !info.IsDir() {
		return errNoSystemd
	}
	socket := filepath.Join(runtime, "private")
	pid, err := listener(socket)
	if err != nil {
		return fmt.Errorf("ask systemd for a scope: %w", err)
	}
	if pid != 1 {
		return fmt.Errorf("ask systemd for a scope: %s belongs to process %d, not to 1; systemd runs in another PID name space", socket, pid)
	}
	return nil
}

// listener tells which process listens on the socket, 0 when it has no PID in
// our name space.
func listener(socket string) (int32, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return 0, fmt.Errorf("make a socket: %w", err)
	}
	defer unix.Close(fd)
	if err := unix.Connect(fd, &unix.SockaddrUnix{Name: socket}); err != nil {
		return 0, &fs.PathError{Op: "connect to", Path: socket, Err: err}
	}
	peer, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return 0, &fs.PathError{Op: "ask who listens on", Path: socket, Err: err}
	}
	return peer.Pid, nil
}
