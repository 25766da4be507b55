package install

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestWhatIsNoDriverIsNotInstalled(t *testing.T) {
	was := initTimeout
	t.Cleanup(func() { initTimeout = was })
	never := fifo(t)
	for name, row := range map[string]struct{ binary, said string }{
		"for another machine":    {otherMachine(t), "another architecture"},
		"an empty file":          {"", "exec format error"},
		"a text":                 {"not a program\n", "exec format error"},
		"no interpreter":         {"#!/no/such/interpreter\n", "no such file"},
		"another answer":         {answering("hello"), "that is not a driver"},
		"no answer":              {"#!/bin/sh\n", "that is not a driver"},
		"a failure":              {answering(`{"status":"Failure","message":"no"}`), "that is not a driver"},
		"an exit status":         {"#!/bin/sh\necho because >&2; exit 3\n", "exit status 3: because"},
		"no end":                 {"#!/bin/sh\nread x < " + never + "\n", "no end after 300ms"},
		"a child that stays":     {version("1") + "read x < " + never + " &\n", "no end after 300ms"},
		"much, and not the end":  {"#!/bin/sh\nexec cat /dev/zero\n", "no end after 300ms"},
		"an argument is missing": {"#!/bin/sh\n[ \"$1\" = init ] || echo '{\"status\":\"Success\"}'\n", "that is not a driver"},
	} {
		t.Run(name, func(t *testing.T) {
			initTimeout = was
			if strings.HasPrefix(row.said, "no end") {
				initTimeout = 300 * time.Millisecond
			}
			for _, before := range []map[string]string{nil, {"exec/example.com~facts/facts": version("0"), "exec/example.com~facts/config.json": "{}"}} {
				target := newTarget(t, before)
				mustMake(t, target.PluginDir)
				was := listing(t, target.PluginDir)
				changed, err := target.Install(content(t, row.binary))
				if err == nil || changed || !strings.Contains(err.Error(), row.said) {
					t.Errorf("installed: %v, %v; want %q", changed, err, row.said)
				}
				if now := listing(t, target.PluginDir); !maps.Equal(was, now) {
					t.Errorf("the plugin directory was %v and is %v", was, now)
				}
			}
		})
	}
}

func mustMake(t *testing.T, dir string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
}

// fifo is a file that keeps whoever opens it, until the test ends.
func fifo(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "fifo")
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		file, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			t.Error(err)
			return
		}
		time.Sleep(100 * time.Millisecond) // now they have opened it, and read its end
		file.Close()
	})
	return path
}

// otherMachine is this program for a machine that there is nowhere.
func otherMachine(t *testing.T) string {
	t.Helper()
	program, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	const machine = 18 // its place in the header (man 5 elf)
	program[machine], program[machine+1] = 0xfe, 0xca
	return string(program)
}

func TestAFileSystemThatExecutesNothing(t *testing.T) {
	target := newTarget(t, map[string]string{"exec/": ""})
	if err := unix.Mount("noexec", target.PluginDir, "tmpfs", unix.MS_NOEXEC, ""); err != nil {
		t.Fatal(err)
	}
	defer unix.Unmount(target.PluginDir, unix.MNT_DETACH)
	if _, err := target.Install(content(t, version("1"))); err == nil || !strings.Contains(err.Error(), "mounted noexec? Choose another --plugin-dir") {
		t.Errorf("installed: %v", err)
	}
	if now := listing(t, target.PluginDir); len(now) != 1 {
		t.Errorf("left: %v", now)
	}
}
