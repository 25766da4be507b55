package cgroup

import (
	"context"
	"errors"
	"fmt"
	"time"

	systemd "github.com/coreos/go-systemd/v22/dbus"
	"github.com/godbus/dbus/v5"
	"golang.org/x/sys/unix"
)

const (
	// scopePatience is how long a pod may wait for systemd to answer.
	scopePatience = 5 * time.Second
	// stopPatience is how long systemd waits for killed processes to be gone.
	stopPatience = 5 * time.Second
)

// toScope asks systemd to put the process into a scope, a unit of its own, and
// waits until that is done. The rules are those of StartTransientUnit in
// org.freedesktop.systemd1(5).
func toScope(ctx context.Context, driver string, pid int) error {
	ctx, cancel := context.WithTimeout(ctx, scopePatience)
	defer cancel()
	unit := scopeName(driver, pid)
	if err := startScope(ctx, unit, driver, pid); err != nil {
		return fmt.Errorf("start %s with process %d through systemd: %w", unit, pid, err)
	}
	return nil
}

func startScope(ctx context.Context, unit, driver string, pid int) error {
	conn, err := connect(ctx, runtimeDir)
	if err != nil {
		return timedOut(ctx, err)
	}
	defer conn.Close()

	done := make(chan string, 1)
	properties := scopeProperties(driver, pid, knowsOOMPolicy(ctx, conn))
	if _, err := conn.StartTransientUnitContext(ctx, unit, "fail", properties, done); err != nil {
		return timedOut(ctx, err)
	}
	select {
	case result := <-done:
		if result != "done" {
			return fmt.Errorf("the job's result is %q; journalctl -u %s may tell why", result, unit)
		}
		return nil
	case <-ctx.Done():
		return timedOut(ctx, errors.New("the job does not end"))
	}
}

// timedOut adds to the error that the time was up. The connection closes then,
// and what fails says no more than that it is closed.
func timedOut(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	return fmt.Errorf("%w: %w", ctx.Err(), err)
}

// scopeProperties describes the scope: systemd.scope(5), systemd.kill(5) and
// CollectMode= in systemd.unit(5).
func scopeProperties(driver string, pid int, oomPolicy bool) []systemd.Property {
	properties := []systemd.Property{
		systemd.PropDescription("Daemon of FlexVolume driver " + driver),
		systemd.PropPids(uint32(pid)),
		// A scope that failed would stay listed, with nobody to reset it.
		property("CollectMode", "inactive-or-failed"),
		// Active and standby replace each other when one dies. Only killed at
		// once they end, and without the wait for a SIGTERM that changes nothing.
		property("KillSignal", int32(unix.SIGKILL)),
		property("TimeoutStopUSec", uint64(stopPatience.Microseconds())),
	}
	if oomPolicy {
		// The default is to stop the whole scope when the kernel kills one of
		// its processes for memory, so the standby would go with the active.
		properties = append(properties, property("OOMPolicy", "continue"))
	}
	return properties
}

// knowsOOMPolicy tells whether this systemd has OOMPolicy for scopes, which came
// with version 253 and was carried back to 252. An unknown property would make
// it refuse the scope. init.scope is a scope that is always there to be asked.
func knowsOOMPolicy(ctx context.Context, conn *systemd.Conn) bool {
	_, err := conn.GetUnitTypePropertyContext(ctx, "init.scope", "Scope", "OOMPolicy")
	return err == nil
}

func property(name string, value any) systemd.Property {
	return systemd.Property{Name: name, Value: dbus.MakeVariant(value)}
}
