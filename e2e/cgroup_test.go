//go:build e2e

package e2e

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"example.com/pod-info-fuse/e2e/internal/harness"
)

// leftCgroups removes the cgroups that the driver has left, and tells which.
func (d *driver) leftCgroups() error {
	err := harness.Eventually(time.Minute, func() error {
		if left := d.Cgroups(); len(left) > 0 {
			return fmt.Errorf("left cgroups: %s", strings.Join(left, " "))
		}
		return nil
	})
	for _, dir := range slices.Backward(d.Cgroups()) { // the innermost first
		harness.RemoveCgroup(dir)
	}
	return err
}
