//go:build e2e

package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"example.com/pod-info-fuse/e2e/internal/harness"
)

// The driver's names here, one by itself and one behind the recorder. The same
// binary installed under two names is two drivers. And the second driver's.
const (
	driverName   = "e2e.example.com/pod-info-fuse"
	recordedName = "recorded.example.com/pod-info-fuse"
	podFuseName  = "e2e.example.com/pod-fuse"
)

const (
	binary        = "../bin/pod-info-fuse"
	podFuseBinary = "../bin/pod-fuse"
)

// driverLog is the name of the log of the driver that is called driverName.
const driverLog = "driver"

// A driver is one that install installed.
type driver struct{ harness.Driver }

func (n *node) driver(name string) *driver {
	return &driver{harness.Driver{Name: name, Dir: filepath.Join(n.pluginDir(), harness.Escaped(name))}}
}

func (n *node) installDrivers() error {
	direct, recorded := n.driver(driverName), n.driver(recordedName)
	configuration, err := n.configureDriver()
	if err != nil {
		return err
	}
	err = n.install(direct, map[string]string{"pod-info-fuse": binary, "config.json": configuration})
	if err != nil {
		return err
	}
	err = n.install(recorded, map[string]string{
		"pod-info-fuse": n.Program("recorder"),
		".recorded":     binary,
	})
	if err != nil {
		return err
	}
	return n.install(n.driver(podFuseName), map[string]string{"pod-fuse": podFuseBinary})
}

// install puts files (name in the driver's directory: path of what to copy) in
// place all at once: the kubelet gives up on a directory that it sees before
// there is a driver in it.
func (n *node) install(d *driver, files map[string]string) error {
	if exists(d.RunDir()) {
		return fmt.Errorf("%s exists: an earlier run was ended before it could take its node down", d.RunDir())
	}
	staging := filepath.Join(n.pluginDir(), "."+harness.Escaped(d.Name))
	if err := os.Mkdir(staging, 0o755); err != nil {
		return err
	}
	for name, source := range files {
		content, err := os.ReadFile(source)
		if err != nil {
			return fmt.Errorf("install the driver %s: %w", d.Name, err)
		}
		if err := os.WriteFile(filepath.Join(staging, name), content, 0o711); err != nil {
			return fmt.Errorf("install the driver %s: %w", d.Name, err)
		}
	}
	if err := os.Rename(staging, d.Dir); err != nil {
		return fmt.Errorf("install the driver %s: %w", d.Name, err)
	}
	n.drivers = append(n.drivers, d)
	return nil
}

// upgrade replaces the driver by a new file, as it has to be done while the
// kubelet may call it.
func (d *driver) upgrade(newer string) error {
	content, err := os.ReadFile(newer)
	if err != nil {
		return fmt.Errorf("upgrade the driver %s: %w", d.Name, err)
	}
	staging := filepath.Join(d.Dir, ".upgrade")
	if err := os.WriteFile(staging, content, 0o711); err != nil {
		return fmt.Errorf("upgrade the driver %s: %w", d.Name, err)
	}
	if err := os.Rename(staging, d.Executable()); err != nil {
		return fmt.Errorf("upgrade the driver %s: %w", d.Name, err)
	}
	return nil
}

// stop ends the driver as an administrator does, and finds what it should not
// have left.
func (d *driver) stop() error {
	if _, err := d.Run("stop", "--force"); err != nil {
		return err
	}
	mounts, err := harness.MountsBelow(d.RunDir())
	if err != nil {
		return err
	}
	if len(mounts) > 0 {
		return fmt.Errorf("the driver %s was stopped and left mounts: %s", d.Name, strings.Join(mounts, " "))
	}
	if exists(d.RunDir()) {
		left, _ := filepath.Glob(filepath.Join(d.RunDir(), "*"))
		return fmt.Errorf("the driver %s was stopped and left its directory %s with %v", d.Name, d.RunDir(), left)
	}
	if err := d.leftCgroups(); err != nil {
		return fmt.Errorf("the driver %s was stopped: %w", d.Name, err)
	}
	return nil
}

// initIfLingering calls init if a volume of a pod lingers. Its record stays until the first
// call-out after the kubelet has removed the pod's directory.
func (d *driver) initIfLingering(podUID string) error {
	status, err := d.Status()
	if err != nil {
		return err
	}
	lingers := func(v harness.Volume) bool { return v.PodUID == podUID && v.State == "lingering" }
	if slices.ContainsFunc(status.Volumes, lingers) {
		_, err = d.Run("init")
	}
	return err
}

// records are the paths of the driver's records that speak of a pod.
func (d *driver) records(podUID string) ([]string, error) {
	paths, err := filepath.Glob(filepath.Join(d.RunDir(), "volumes", "*"))
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
