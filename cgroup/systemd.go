package cgroup

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"

	systemd "github.com/coreos/go-systemd/v22/dbus"
	"github.com/godbus/dbus/v5"
	"golang.org/x/sys/unix"
)

// runtimeDir is systemd's.
const runtimeDir = "/run/systemd"

var errNoSystemd = errors.New("no systemd runs")

// connect connects to systemd itself, by the socket that systemctl uses as root:
// it needs no message bus. runtime is systemd's directory. The error is
// errNoSystemd where no systemd runs, which is the rule of sd_booted(3): there
// is no directory /run/systemd/system.
func connect(ctx context.Context, runtime string) (*systemd.Conn, error) {
	if info, err := os.Lstat(filepath.Join(runtime, "system")); err != nil || !info.IsDir() {
		return nil, errNoSystemd
	}
	return systemd.NewConnection(func() (*dbus.Conn, error) {
		return dial(ctx, filepath.Join(runtime, "private"))
	})
}

func dial(ctx context.Context, socket string) (*dbus.Conn, error) {
	var dialer net.Dialer
	stream, err := dialer.DialContext(ctx, "unix", socket)
	if err != nil {
		return nil, err
	}
	if err := checkListener(stream.(*net.UnixConn)); err != nil {
		stream.Close()
		return nil, fmt.Errorf("%s: %w", socket, err)
	}
	conn, err := dbus.NewConn(stream, dbus.WithContext(ctx))
	if err != nil {
		stream.Close()
		return nil, err
	}
	// Any other method than EXTERNAL would look for a cookie in root's home.
	if err := conn.Auth([]dbus.Auth{dbus.AuthExternal(strconv.Itoa(os.Getuid()))}); err != nil {
		conn.Close()
		return nil, fmt.Errorf("authenticate on %s: %w", socket, err)
	}
	return conn, nil
}

// checkListener makes sure that systemd means the same process as we do when it
// hears a PID. A container may have the host's /run/systemd, but PIDs of its
// own. There, systemd would put some other process into the scope, and kill it
// at shutdown. The kernel tells the listener's PID in our own numbers, 0 if it
// has none (SO_PEERCRED in unix(7)): systemd must be process 1 to us as well.
func checkListener(conn *net.UnixConn) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var peer *unix.Ucred
	var peerErr error
	err = raw.Control(func(fd uintptr) {
		peer, peerErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	if err := errors.Join(err, peerErr); err != nil {
		return fmt.Errorf("ask who listens: %w", err)
	}
	if peer.Pid != 1 {
		return fmt.Errorf("process %d listens, not process 1: systemd is in another PID name space", peer.Pid)
	}
	return nil
}
