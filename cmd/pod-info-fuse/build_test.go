package main_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// buildCommand builds the driver. Its version tells some builds what to do.
func buildCommand(path, version, tags string) *exec.Cmd {
	command := exec.Command("go", "build", "-buildvcs=false", "-tags", tags, "-ldflags", "-s -w -X 'main.version="+version+"'", "-o", path, ".")
	command.Env = append(os.Environ(), "CGO_ENABLED=0")
	return command
}

// installedMode is the mode that an installer gives the driver.
const installedMode = 0o711

// build builds the driver in another way than the one under test, if no test has done so.
func build(t *testing.T, version, tags string) string {
	t.Helper()
	path := filepath.Join(filepath.Dir(binary), fmt.Sprintf("%x", sha256.Sum256([]byte(tags+" "+version))))
	one, err := os.Open(filepath.Dir(binary))
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
	if output, err := buildCommand(path, version, tags).CombinedOutput(); err != nil {
		t.Fatalf("build version %s: %v\n%s", version, err, output)
	}
	if err := os.Chmod(path, installedMode); err != nil {
		t.Fatal(err)
	}
	return path
}

// withLaterFormat builds the version "exits", which cannot serve, and writes a format of its
// own: a line of a file of its source is another one.
func withLaterFormat(t *testing.T, file, line, later string) string {
	t.Helper()
	text := read(t, file)
	if strings.Count(text, line) != 1 {
		t.Fatalf("%s has %q %d times", file, line, strings.Count(text, line))
	}
	path, err := filepath.Abs(file)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write(t, filepath.Join(dir, "later.go"), strings.Replace(text, line, later, 1))
	write(t, filepath.Join(dir, "overlay"), fmt.Sprintf(`{"Replace": {%q: %q}}`, path, filepath.Join(dir, "later.go")))
	command := buildCommand(filepath.Join(dir, "driver"), "exits", "attack")
	command.Env = append(command.Env, "GOFLAGS=-overlay="+filepath.Join(dir, "overlay"))
	if output, err := command.CombinedOutput(); err != nil {
		t.Fatalf("build with a later %s: %v\n%s", line, err, output)
	}
	if err := os.Chmod(filepath.Join(dir, "driver"), installedMode); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "driver")
}

// copyOf returns a copy of a program. What is in the driver's place is else the same file
// for all tests.
func copyOf(t *testing.T, program string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "pod-info-fuse")
	if err := errors.Join(os.WriteFile(path, []byte(read(t, program)), installedMode), os.Chmod(path, installedMode)); err != nil {
		t.Fatal(err)
	}
	return path
}
