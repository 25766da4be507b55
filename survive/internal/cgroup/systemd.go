package cgroup

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"

	systemd "github.com/coreos/go-systemd/v22/dbus"
	"github.com/godbus/dbus/v5"
	"golang.org/x/sys/unix"
)

const (
	scopeTimeout = 5 * time.Second // how long a pod may wait for systemd to answer
	stopTimeout  = 5 * time.Second // how long systemd waits for killed processes to be gone
)

// toScope asks systemd to put the process into a scope, a unit of its own, and
// waits until that is done. The rules are those of StartTransientUnit in
// org.freedesktop.systemd1(5).
func toScope(ctx context.Context, driver string, pid, most int) (err error) {
	ctx, cancel := context.WithTimeout(ctx, scopeTimeout)
	defer cancel()
	unit := scopeName(driver, pid)
	defer func() {
		if err != nil && ctx.Err() != nil { // the context closes the connection, and err says no more
			err = fmt.Errorf("%w: %w", ctx.Err(), err)
		}
		if err != nil {
			err = fmt.Errorf("start %s with process %d through systemd: %w", unit, pid, err)
		}
	}()
	conn, err := connect(ctx, runtimeDir)
	if err != nil {
		return err
	}
	defer conn.Close()
	done := make(chan string, 1)
	if _, err := conn.StartTransientUnitContext(ctx, unit, "fail", scopeProperties(ctx, conn, driver, pid, most), done); err != nil {
		return err
	}
	select {
	case result := <-done:
		if result != "done" {
			return fmt.Errorf("the job's result is %q; journalctl -u %s may tell why", result, unit)
		}
		return nil
	case <-ctx.Done():
		return errors.New("the job does not end")
	}
}

// scopeProperties describes the scope: systemd.scope(5), systemd.kill(5),
// systemd.resource-control(5) and CollectMode= in systemd.unit(5).
func scopeProperties(ctx context.Context, conn *systemd.Conn, driver string, pid, most int) []systemd.Property {
	properties := []systemd.Property{
		systemd.PropDescription("Daemon of " + driver),
		systemd.PropPids(uint32(pid)),
		// A scope that failed would stay listed, with nobody to reset it.
		property("CollectMode", "inactive-or-failed"),
		// Active and standby replace each other when one dies. They end only when killed
		// together, and a SIGTERM before would change nothing.
		property("KillSignal", int32(unix.SIGKILL)),
		property("TimeoutStopUSec", uint64(stopTimeout.Microseconds())),
	}
	for _, p := range []systemd.Property{
		// The default is to stop the whole scope when the kernel kills one of
		// its processes for memory, so the standby would go with the active. Came with
		// version 253, and was carried back to 252.
		property("OOMPolicy", "continue"),
		property("TasksMax", uint64(most)),       // 227
		property("MemoryMax", uint64(MaxMemory)), // 231
	} {
		// An unknown one would make it refuse the scope. init.scope is always there to be asked.
		if _, err := conn.GetUnitTypePropertyContext(ctx, "init.scope", "Scope", p.Name); err == nil {
			properties = append(properties, p)
		}
	}
	return properties
}

func property(name string, value any) systemd.Property {
	return systemd.Property{Name: name, Value: dbus.MakeVariant(value)}
}

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
