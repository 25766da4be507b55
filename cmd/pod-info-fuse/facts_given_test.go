package main_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// anew makes the directory of facts anew, with one fact in it.
func anew(t *testing.T, facts, zone string) {
	t.Helper()
	if err := errors.Join(os.RemoveAll(facts), os.Mkdir(facts, 0o755)); err != nil {
		t.Fatal(err)
	}
	writeFact(t, zone, facts, "zone")
}

func TestADirectoryThatTheDaemonWasNotGivenIsTriedAgain(t *testing.T) {
	d, facts := withFacts(t, nil)
	d.replaceBinary(copyOf(t, binary)) // because its mode changes
	volume := d.mount()
	anew(t, facts, "eu-1\n")
	if err := os.Chmod(d.path, 0o700); err != nil { // the daemon's user cannot execute it
		t.Fatal(err)
	}
	d.mount() // succeeds all the same
	if !d.status().Facts.Stale {
		t.Error("status does not say that the daemon was not given the directory")
	}
	if err := os.Chmod(d.path, installedMode); err != nil {
		t.Fatal(err)
	}
	d.must("init")
	if got := read(t, volume, "node.zone"); got != "eu-1\n" || d.status().Facts.Stale {
		t.Errorf("%q, %+v", got, d.status().Facts)
	}
}

// The daemon gets the directory from a call-out. What is above it need not be open to its user.
func TestADirectoryThatTheDaemonMayNotRead(t *testing.T) {
	d, facts := withFacts(t, nil)
	writeFact(t, "eu-1\n", facts, "zone")
	if err := errors.Join(os.Chmod(facts, 0o700), os.Chmod(filepath.Dir(facts), 0o700)); err != nil {
		t.Fatal(err)
	}
	volume := d.mount()
	if _, err := os.ReadFile(filepath.Join(volume, "node.zone")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("in a directory that the daemon may not search: %v", err)
	}
	if got := names(t, volume); !slices.Equal(got, everyVolume) {
		t.Errorf("in a directory that the daemon may not list: %q", got)
	}
	if s := d.status().Facts; !strings.Contains(s.Error, "chmod 0755") {
		t.Errorf("status says of the facts: %+v", s)
	}
	if err := os.Chmod(facts, 0o755); err != nil {
		t.Fatal(err)
	}
	if got := read(t, volume, "node.zone"); got != "eu-1\n" {
		t.Errorf("%q", got)
	}
}

func TestABrokenConfigurationLeavesTheFacts(t *testing.T) {
	d, facts := withFacts(t, nil)
	writeFact(t, "eu-1\n", facts, "zone")
	volume := d.mount()
	writeFact(t, "{", filepath.Dir(d.path), "config.json")
	d.must("init")
	if got := read(t, volume, "node.zone"); got != "eu-1\n" {
		t.Errorf("%q", got)
	}
	if s := d.status(); s.Daemon.Takeovers != 0 || s.ConfigError == "" {
		t.Errorf("%+v", s)
	}
}

func TestAFileForADirectoryOfFactsDoesNotWeakenTheConfinement(t *testing.T) {
	d, facts := withFacts(t, nil)
	if err := os.Remove(facts); err != nil {
		t.Fatal(err)
	}
	writeFact(t, "not a directory", facts)
	d.mount()
	if c := d.status().Daemon.Confinement.Active; c == nil || !c.Landlock {
		t.Errorf("%+v", c)
	}
}

// A call-out that cannot look does not take the directory for another one.
func TestALookThatFailsChangesNothing(t *testing.T) {
	d, facts := withFacts(t, nil)
	if err := unix.Mount("facts", facts, "tmpfs", 0, "mode=755"); err != nil {
		t.Fatal(err)
	}
	defer unix.Unmount(facts, unix.MNT_DETACH)
	writeFact(t, "eu-1\n", facts, "zone")
	volume := d.mount()
	blind := d.execute([]string{"unshare", "--mount", "sh", "-c",
		`mount --bind /etc/passwd /proc/$$/mountinfo && exec "$@"`, "sh", d.path, "init"})
	if a := d.run(blind); a.Status != "Success" {
		t.Errorf("init: %+v", a)
	}
	if log := read(t, filepath.Dir(facts), "log"); !strings.Contains(log, "look at the directory "+facts) {
		t.Errorf("init could look: %s", log)
	}
	if s := d.status(); s.Daemon.Takeovers != 0 || s.Facts.Stale {
		t.Errorf("%+v, %+v", s.Daemon, s.Facts)
	}
	if got := read(t, volume, "node.zone"); got != "eu-1\n" {
		t.Errorf("%q", got)
	}
}
