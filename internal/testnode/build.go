package testnode

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/e2e/builds"
)

// build builds the driver, as package builds does, for any user.
func build(path, version, names string, edits ...builds.Edit) error {
	err := builds.Build(path, "example.com/pod-info-fuse/cmd/pod-info-fuse", "-s -w -X 'main.version="+version+"'", names, edits...)
	if err != nil {
		return fmt.Errorf("version %s: %w", version, err)
	}
	return os.Chmod(path, InstalledMode)
}

// InstalledMode is the mode that an installer gives the driver.
const InstalledMode = 0o711

// Build builds the driver in another way than the one under test, if no test has done so: see
// package builds. The version tells some builds what to do.
func Build(t *testing.T, version, names string, edits ...builds.Edit) string {
	t.Helper()
	Require(t)
	path := filepath.Join(filepath.Dir(Binary), fmt.Sprintf("%x", sha256.Sum256(fmt.Appendf(nil, "%q", append([]any{names, version}, edits)))))
	one, err := os.Open(filepath.Dir(Binary))
	if err != nil {
		t.Fatal(err)
	}
	defer one.Close()
	if err := unix.Flock(int(one.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err == nil {
		return path
	}
	if err := build(path, version, names, edits...); err != nil {
		t.Fatal(err)
	}
	return path
}

// CopyOf returns a copy of a program. What is in the driver's place is else the same file
// for all tests.
func CopyOf(t *testing.T, program string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "pod-info-fuse")
	if err := errors.Join(os.WriteFile(path, []byte(Read(t, program)), InstalledMode), os.Chmod(path, InstalledMode)); err != nil {
		t.Fatal(err)
	}
	return path
}
