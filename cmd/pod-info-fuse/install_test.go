package main_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestInstallUpgradeAndRollback(t *testing.T) {
	d := place(t)
	if got, want := d.installs(binary), "version 1.2.3 installed as "+d.path+" (as --plugin-dir says)\n"; got != want {
		t.Errorf("the first time it says %q, want %q", got, want)
	}
	inode := inodeOf(t, d.path)
	if got, want := d.installs(binary), "version 1.2.3 is installed already as "+d.path+" (as --plugin-dir says)\n"; got != want {
		t.Errorf("the second time it says %q, want %q", got, want)
	}
	want := fmt.Sprintf("{\n  \"version\": \"1.2.3\",\n  \"binary\": %q,\n  \"pluginDir\": %q,\n  \"why\": \"as --plugin-dir says\",\n  \"changed\": false\n}\n", d.path, d.pluginDir())
	if got := d.installs(binary, "-o", "json"); got != want {
		t.Errorf("to a script, it says %q, want %q", got, want)
	}
	if now := inodeOf(t, d.path); now != inode {
		t.Errorf("it wrote what was there already: inode %d became %d", inode, now)
	}
	d.serves()
	output, err := d.installer(newer, "install", "--rollback").CombinedOutput()
	if err == nil || !strings.Contains(string(output), "has no version before") {
		t.Errorf("nothing to go back to: %v: %s", err, output)
	}
	d.installs(newer)
	for _, version := range []string{"1.2.4", "1.2.3", "1.2.4"} {
		if got := d.version(); got != version {
			t.Errorf("version %s is installed, want %s", got, version)
		}
		d.serves()
		d.installs(binary, "--rollback")
	}
}

// version asks the binary in the driver's place.
func (d installed) version() string {
	d.t.Helper()
	output, err := exec.Command(d.path, "version").Output()
	if err != nil {
		d.t.Fatal(err)
	}
	return strings.TrimPrefix(strings.TrimSpace(string(output)), "pod-info-fuse ")
}

func inodeOf(t *testing.T, path string) uint64 {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Sys().(*syscall.Stat_t).Ino
}

// The daemon is not root, and must get to the binary through all directories.
func TestTheUmaskDoesNotHideTheDriver(t *testing.T) {
	d := place(t)
	if err := os.Chmod(filepath.Dir(d.pluginDir()), 0o755); err != nil { // the test's own
		t.Fatal(err)
	}
	d.path = filepath.Join(d.pluginDir(), "volume", "exec", filepath.Base(filepath.Dir(d.path)), filepath.Base(d.path))
	install := d.installer(binary, "install")
	umask := exec.Command("/bin/sh", append([]string{"-c", `umask 077; exec "$@"`, "sh"}, install.Args...)...)
	if output, err := umask.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	d.serves()
	others := exec.Command(d.path, "version")
	others.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 12345, Gid: 12345}}
	if output, err := others.CombinedOutput(); err != nil {
		t.Errorf("another user: %v: %s", err, output)
	}
}

func TestInstallTakesAConfiguration(t *testing.T) {
	d := place(t)
	file := filepath.Join(t.TempDir(), "any name")
	for config, said := range map[string]string{
		`{"log":"somewhere"}`: "the configuration to install: log is",
		`{"logs":"off"}`:      `unknown field "logs"`,
	} {
		write(t, file, config)
		if output, err := d.installer(binary, "install", "--config", file).CombinedOutput(); err == nil || !strings.Contains(string(output), said) {
			t.Errorf("%s: %v: %s", config, err, output)
		}
	}
	if names, err := os.ReadDir(d.pluginDir()); len(names) > 0 {
		t.Errorf("left: %v, %v", names, err)
	}
	log := filepath.Join(t.TempDir(), "log")
	want := []byte(`{"log":"` + log + `"}`)
	write(t, file, string(want))
	d.installs(binary, "--config", file)
	d.installs(newer) // leaves it
	if got, err := os.ReadFile(filepath.Join(filepath.Dir(d.path), "config.json")); !bytes.Equal(got, want) {
		t.Errorf("config.json is %q, %v", got, err)
	}
	d.must("init")
	if got := read(t, log); !strings.Contains(got, "init: Success") {
		t.Errorf("the log is %q", got)
	}
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}
