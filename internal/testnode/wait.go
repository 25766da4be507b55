package testnode

import (
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// KernelBefore tells whether the running kernel is older than a version.
func KernelBefore(t *testing.T, wantMajor, wantMinor int) bool {
	t.Helper()
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		t.Fatal(err)
	}
	var major, minor int
	if _, err := fmt.Sscanf(unix.ByteSliceToString(name.Release[:]), "%d.%d", &major, &minor); err != nil {
		t.Fatal(err)
	}
	return major < wantMajor || major == wantMajor && minor < wantMinor
}

func Write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// Poke changes a byte in the middle of a file.
func Poke(path string, at int64) error {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	b := make([]byte, 1)
	if _, err := file.ReadAt(b, at); err != nil {
		return err
	}
	b[0] ^= 0xff
	_, err = file.WriteAt(b, at)
	return err
}
