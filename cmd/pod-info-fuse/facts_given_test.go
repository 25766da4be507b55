package main_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
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
	driver, err := os.ReadFile(binary)
	if err != nil {
		t.Fatal(err)
	}
	// A copy, because its mode changes.
	if err := errors.Join(os.Remove(d.path), os.WriteFile(d.path, driver, 0o755), os.Chmod(d.path, 0o755)); err != nil {
		t.Fatal(err)
	}
	volume := d.mount()
	anew(t, facts, "eu-1\n")
	if err := os.Chmod(d.path, 0o700); err != nil { // the daemon's user cannot execute it
		t.Fatal(err)
	}
	d.mount() // succeeds all the same
	if !d.status().Facts.Stale {
		t.Error("status does not say that the daemon was not given the directory")
	}
	if err := os.Chmod(d.path, 0o755); err != nil {
		t.Fatal(err)
	}
	d.must("init")
	if got := read(t, volume, "node.zone"); got != "eu-1\n" || d.status().Facts.Stale {
		t.Errorf("%q, %+v", got, d.status().Facts)
	}
}

func TestADirectoryThatTheDaemonCannotReachIsGivenLater(t *testing.T) {
	d, facts := withFacts(t, nil)
	writeFact(t, "eu-1\n", facts, "zone")
	parent := filepath.Dir(facts)
	if err := os.Chmod(parent, 0o700); err != nil {
		t.Fatal(err)
	}
	volume := d.mount()
	if _, err := os.ReadFile(filepath.Join(volume, "node.zone")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("behind a directory that the daemon may not search: %v", err)
	}
	if err := os.Chmod(parent, 0o755); err != nil {
		t.Fatal(err)
	}
	d.mount()
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
