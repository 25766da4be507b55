//go:build cluster

package cluster

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/e2e/internal/harness"
)

// keepSysctls puts files over the sysctls that the kubelet sets: no name space
// has them for itself.
func keepSysctls() error {
	copies, err := os.MkdirTemp("/run", "sysctls-")
	if err != nil {
		return err
	}
	for _, name := range harness.KubeletSysctls {
		original := filepath.Join("/proc/sys", name)
		value, err := os.ReadFile(original)
		if err != nil {
			return err
		}
		file := filepath.Join(copies, filepath.Base(name))
		if err := os.WriteFile(file, value, 0o644); err != nil {
			return err
		}
		if err := unix.Mount(file, original, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("keep the sysctl %s: %w", name, err)
		}
	}
	return nil
}
