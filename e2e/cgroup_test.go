//go:build e2e

package e2e

import (
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"example.com/pod-info-fuse/e2e/internal/harness"
)

// leftCgroups tells what is left of a cgroup that the driver made for its daemon,
// in whichever hierarchies the machine has. systemd takes a moment to remove a
// scope.
func leftCgroups(path string) error {
	if !strings.HasPrefix(filepath.Base(path), "pod-info-fuse-") {
		return nil // the daemon was in a cgroup that others made, or in none
	}
	return harness.Eventually(10*time.Second, func() error {
		for _, hierarchy := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/*"} {
			left, err := filepath.Glob(filepath.Join(hierarchy, path))
			if err != nil {
				return err
			}
			if len(left) > 0 {
				return fmt.Errorf("left cgroups: %s", strings.Join(left, " "))
			}
		}
		return nil
	})
}
