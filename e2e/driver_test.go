//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// The driver's names here, one by itself and one behind the recorder. The same
// binary installed under two names is two drivers.
const (
	driverName   = "e2e.example.com/pod-info-fuse"
	recordedName = "recorded.example.com/pod-info-fuse"
)

const binary = "../bin/pod-info-fuse"

// A driver is the driver's binary as it is installed under one name.
type driver struct {
	name string // as pods write it
	dir  string // as the kubelet looks for it
}

// escaped is a driver's name as a directory's name.
func escaped(name string) string { return strings.ReplaceAll(name, "/", "~") }

// runDir is where the driver keeps its state.
func (d *driver) runDir() string { return filepath.Join("/run/pod-info-fuse", escaped(d.name)) }

func (d *driver) executable() string { return filepath.Join(d.dir, "pod-info-fuse") }

func (n *node) driver(name string) *driver {
	return &driver{name: name, dir: filepath.Join(n.pluginDir(), escaped(name))}
}

func (n *node) installDrivers() error {
	direct, recorded := n.driver(driverName), n.driver(recordedName)
	err := n.install(direct, map[string]string{"pod-info-fuse": binary})
	if err != nil {
		return err
	}
	return n.install(recorded, map[string]string{
		"pod-info-fuse": n.program("recorder"),
		".recorded":     binary,
	})
}

// install puts files (name in the driver's directory: path of what to copy) in
// place all at once: the kubelet gives up on a directory that it sees before
// there is a driver in it.
func (n *node) install(d *driver, files map[string]string) error {
	if exists(d.runDir()) {
		return fmt.Errorf("%s exists: an earlier run was ended before it could take its node down", d.runDir())
	}
	staging := filepath.Join(n.pluginDir(), "."+escaped(d.name))
	if err := os.Mkdir(staging, 0o755); err != nil {
		return err
	}
	for name, source := range files {
		content, err := os.ReadFile(source)
		if err != nil {
			return fmt.Errorf("install the driver %s: %w", d.name, err)
		}
		if err := os.WriteFile(filepath.Join(staging, name), content, 0o755); err != nil {
			return fmt.Errorf("install the driver %s: %w", d.name, err)
		}
	}
	if err := os.Rename(staging, d.dir); err != nil {
		return fmt.Errorf("install the driver %s: %w", d.name, err)
	}
	n.drivers = append(n.drivers, d)
	return nil
}

// upgrade replaces the driver by a new file, as it has to be done while the
// kubelet may call it.
func (d *driver) upgrade(newer string) error {
	content, err := os.ReadFile(newer)
	if err != nil {
		return fmt.Errorf("upgrade the driver %s: %w", d.name, err)
	}
	staging := filepath.Join(d.dir, ".upgrade")
	if err := os.WriteFile(staging, content, 0o755); err != nil {
		return fmt.Errorf("upgrade the driver %s: %w", d.name, err)
	}
	if err := os.Rename(staging, d.executable()); err != nil {
		return fmt.Errorf("upgrade the driver %s: %w", d.name, err)
	}
	return nil
}

// run runs one of the driver's commands, and returns what it printed.
func (d *driver) run(args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, d.executable(), args...)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("%s of the driver %s: %w: %s", strings.Join(args, " "), d.name, err, stderr.Bytes())
	}
	return out, err
}

// stop ends the driver as an administrator does, and finds what it should not
// have left.
func (d *driver) stop() error {
	before, err := d.status()
	if err != nil {
		return err
	}
	if _, err := d.run("stop", "--force"); err != nil {
		return err
	}
	mounts, err := mountsBelow(d.runDir())
	if err != nil {
		return err
	}
	if len(mounts) > 0 {
		return fmt.Errorf("the driver %s was stopped and left mounts: %s", d.name, strings.Join(mounts, " "))
	}
	if exists(d.runDir()) {
		left, _ := filepath.Glob(filepath.Join(d.runDir(), "*"))
		return fmt.Errorf("the driver %s was stopped and left its directory %s with %v", d.name, d.runDir(), left)
	}
	if err := leftCgroups(before.Daemon.Cgroup); err != nil {
		return fmt.Errorf("the driver %s was stopped: %w", d.name, err)
	}
	return nil
}

// driverStatus is what the tests need of `status -o json`.
type driverStatus struct {
	Mount  struct{ State string }
	Daemon struct {
		Active       daemonProcess
		Standby      daemonProcess // once it could take over
		Takeovers    int
		LastTakeover struct{ Cause string }
		Cgroup       string
	}
	Volumes []driverVolume
}

// A daemonProcess is one process of the daemon's pair, zero where there is none.
type daemonProcess struct {
	PID     int
	Version string
}

type driverVolume struct {
	ID, Dir, PodUID, PodName, PodNamespace, State string
}

// status asks the driver. Its exit status tells of its health; here only what it
// says counts.
func (d *driver) status() (driverStatus, error) {
	var status driverStatus
	out, err := d.run("status", "-o", "json")
	if len(out) == 0 {
		return status, err
	}
	if err := json.Unmarshal(out, &status); err != nil {
		return status, fmt.Errorf("status of the driver %s: %w: %s", d.name, err, out)
	}
	return status, nil
}

// records are the paths of the driver's records that speak of a pod.
func (d *driver) records(podUID string) ([]string, error) {
	paths, err := filepath.Glob(filepath.Join(d.runDir(), "volumes", "*"))
	if err != nil {
		return nil, err
	}
	var found []string
	for _, path := range paths {
		content, err := os.ReadFile(path)
		if errors.Is(err, os.ErrNotExist) {
			continue // another pod's, which has just gone
		}
		if err != nil {
			return nil, err
		}
		if bytes.Contains(content, []byte(podUID)) {
			found = append(found, path)
		}
	}
	return found, nil
}
