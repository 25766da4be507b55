package testnode

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// BuildCommand builds the driver. Its version tells some builds what to do.
func BuildCommand(path, version, tags string) *exec.Cmd {
	command := exec.Command("go", "build", "-buildvcs=false", "-tags", tags, "-ldflags", "-s -w -X 'main.version="+version+"'", "-o", path, "example.com/pod-info-fuse/cmd/pod-info-fuse")
	command.Env = append(os.Environ(), "CGO_ENABLED=0")
	return command
}

// InstalledMode is the mode that an installer gives the driver.
const InstalledMode = 0o711

// Build builds the driver in another way than the one under test, if no test has done so.
func Build(t *testing.T, version, tags string) string {
	t.Helper()
	Require(t)
	path := filepath.Join(filepath.Dir(Binary), fmt.Sprintf("%x", sha256.Sum256([]byte(tags+" "+version))))
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
	if output, err := BuildCommand(path, version, tags).CombinedOutput(); err != nil {
		t.Fatalf("build version %s: %v\n%s", version, err, output)
	}
	if err := os.Chmod(path, InstalledMode); err != nil {
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
