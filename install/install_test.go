package install_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"example.com/pod-info-fuse/internal/testnode"
)

func TestInstallAndUpgrade(t *testing.T) {
	d := testnode.Place(t)
	if got, want := d.Installs(testnode.Binary), "version 1.2.3 installed as "+d.Path+" (as --plugin-dir says)\n"; got != want {
		t.Errorf("the first time it says %q, want %q", got, want)
	}
	inode := inodeOf(t, d.Path)
	if got, want := d.Installs(testnode.Binary), "version 1.2.3 is installed already as "+d.Path+" (as --plugin-dir says)\n"; got != want {
		t.Errorf("the second time it says %q, want %q", got, want)
	}
	if now := inodeOf(t, d.Path); now != inode {
		t.Errorf("it wrote what was there already: inode %d became %d", inode, now)
	}
	d.Serves()
	for _, next := range []struct{ binary, version string }{{testnode.Newer, "1.2.4"}, {testnode.Binary, "1.2.3"}} {
		d.Installs(next.binary)
		if got := versionOf(d); got != next.version {
			t.Errorf("version %s is installed, want %s", got, next.version)
		}
		d.Serves()
	}
}

// versionOf asks the binary in the driver's place.
func versionOf(d testnode.Driver) string {
	d.T.Helper()
	output, err := exec.Command(d.Path, "version").Output()
	if err != nil {
		d.T.Fatal(err)
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
	d := testnode.Place(t)
	if err := os.Chmod(filepath.Dir(d.PluginDir()), 0o755); err != nil { // the test's own
		t.Fatal(err)
	}
	d.Path = filepath.Join(d.PluginDir(), "volume", "exec", filepath.Base(filepath.Dir(d.Path)), filepath.Base(d.Path))
	install := d.Installer(testnode.Binary, "install")
	umask := exec.Command("/bin/sh", append([]string{"-c", `umask 077; exec "$@"`, "sh"}, install.Args...)...)
	if output, err := umask.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	d.Serves()
	others := exec.Command(d.Path, "version")
	others.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 12345, Gid: 12345}}
	if output, err := others.CombinedOutput(); err != nil {
		t.Errorf("another user: %v: %s", err, output)
	}
}

func TestInstallTakesAConfiguration(t *testing.T) {
	d := testnode.Place(t)
	file := filepath.Join(t.TempDir(), "any name")
	for config, said := range map[string]string{
		`{"log":"somewhere"}`: "the configuration to install: log is",
		`{"logs":"off"}`:      `unknown field "logs"`,
	} {
		testnode.Write(t, file, config)
		if output, err := d.Installer(testnode.Binary, "install", "--config", file).CombinedOutput(); err == nil || !strings.Contains(string(output), said) {
			t.Errorf("%s: %v: %s", config, err, output)
		}
	}
	if names, err := os.ReadDir(d.PluginDir()); len(names) > 0 {
		t.Errorf("left: %v, %v", names, err)
	}
	log := filepath.Join(t.TempDir(), "log")
	want := []byte(`{"log":"` + log + `"}`)
	testnode.Write(t, file, string(want))
	d.Installs(testnode.Binary, "--config", file)
	d.Installs(testnode.Newer) // leaves it
	if got, err := os.ReadFile(filepath.Join(filepath.Dir(d.Path), "config.json")); !bytes.Equal(got, want) {
		t.Errorf("config.json is %q, %v", got, err)
	}
	d.Must("init")
	if got := testnode.Read(t, log); !strings.Contains(got, "init: Success") {
		t.Errorf("the log is %q", got)
	}
}
