package cgroup

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// runtime is /run/systemd of a machine that systemd runs on.
func runtime(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "system"), 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestNoSystemd(t *testing.T) {
	file := t.TempDir()
	if err := os.WriteFile(filepath.Join(file, "system"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{t.TempDir(), "/no/such/directory", file} {
		if _, err := connect(context.Background(), dir); !errors.Is(err, errNoSystemd) {
			t.Errorf("%s: %v", dir, err)
		}
	}
}

func TestSystemdDoesNotListen(t *testing.T) {
	if _, err := connect(context.Background(), runtime(t)); err == nil || errors.Is(err, errNoSystemd) || !strings.Contains(err.Error(), "/private") {
		t.Error(err)
	}
}

// A kubelet in a container with the host's /run: systemd would move a process
// of the host that has the same PID by chance.
func TestSystemdThatCountsProcessesDifferently(t *testing.T) {
	dir := runtime(t)
	socket, err := net.Listen("unix", filepath.Join(dir, "private"))
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	if _, err := connect(context.Background(), dir); err == nil || !strings.Contains(err.Error(), "another PID name space") {
		t.Error(err)
	}
}
