package fs_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/internal/testnode"
)

func TestADirectoryThatTheDaemonWasNotGivenIsTriedAgain(t *testing.T) {
	d, facts := testnode.WithFacts(t, nil)
	d.ReplaceBinary(testnode.CopyOf(t, testnode.Binary)) // because its mode changes
	volume := d.Mount()
	testnode.Anew(t, facts, "eu-1\n")
	if err := os.Chmod(d.Path, 0o700); err != nil { // the daemon's user cannot execute it
		t.Fatal(err)
	}
	d.Mount() // succeeds all the same
	if !d.Status().Facts.Stale {
		t.Error("status does not say that the daemon was not given the directory")
	}
	if err := os.Chmod(d.Path, testnode.InstalledMode); err != nil {
		t.Fatal(err)
	}
	d.Must("init")
	if got := testnode.Read(t, volume, "node.zone"); got != "eu-1\n" || d.Status().Facts.Stale {
		t.Errorf("%q, %+v", got, d.Status().Facts)
	}
}

// The daemon gets the directory from a call-out. What is above it need not be open to its user.
func TestADirectoryThatTheDaemonMayNotRead(t *testing.T) {
	d, facts := testnode.WithFacts(t, nil)
	testnode.WriteFact(t, "eu-1\n", facts, "zone")
	if err := errors.Join(os.Chmod(facts, 0o700), os.Chmod(filepath.Dir(facts), 0o700)); err != nil {
		t.Fatal(err)
	}
	volume := d.Mount()
	if _, err := os.ReadFile(filepath.Join(volume, "node.zone")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("in a directory that the daemon may not search: %v", err)
	}
	if got := testnode.Names(t, volume); !slices.Equal(got, testnode.EveryVolume) {
		t.Errorf("in a directory that the daemon may not list: %q", got)
	}
	if s := d.Status().Facts; !strings.Contains(s.Error, "chmod 0755") {
		t.Errorf("status says of the facts: %+v", s)
	}
	if err := os.Chmod(facts, 0o755); err != nil {
		t.Fatal(err)
	}
	if got := testnode.Read(t, volume, "node.zone"); got != "eu-1\n" {
		t.Errorf("%q", got)
	}
}

func TestABrokenConfigurationLeavesTheFacts(t *testing.T) {
	d, facts := testnode.WithFacts(t, nil)
	testnode.WriteFact(t, "eu-1\n", facts, "zone")
	volume := d.Mount()
	testnode.WriteFact(t, "{", filepath.Dir(d.Path), "config.json")
	d.Must("init")
	if got := testnode.Read(t, volume, "node.zone"); got != "eu-1\n" {
		t.Errorf("%q", got)
	}
	if s := d.Status(); s.Daemon.Takeovers != 0 || s.ConfigError == "" {
		t.Errorf("%+v", s)
	}
}

func TestAFileForADirectoryOfFactsDoesNotWeakenTheConfinement(t *testing.T) {
	d, facts := testnode.WithFacts(t, nil)
	if err := os.Remove(facts); err != nil {
		t.Fatal(err)
	}
	testnode.WriteFact(t, "not a directory", facts)
	d.Mount()
	if c := d.Status().Daemon.Confinement.Active; c == nil || !c.Landlock {
		t.Errorf("%+v", c)
	}
}

// A call-out that cannot look does not take the directory for another one.
func TestALookThatFailsChangesNothing(t *testing.T) {
	d, facts := testnode.WithFacts(t, nil)
	if err := unix.Mount("facts", facts, "tmpfs", 0, "mode=755"); err != nil {
		t.Fatal(err)
	}
	defer unix.Unmount(facts, unix.MNT_DETACH)
	testnode.WriteFact(t, "eu-1\n", facts, "zone")
	volume := d.Mount()
	blind := d.Execute([]string{"unshare", "--mount", "sh", "-c",
		`mount --bind /proc/$$ /proc/1 && mount --bind /etc/passwd /proc/$$/mountinfo && exec "$@"`, "sh", d.Path, "init"})
	if a := d.Run(blind); a.Status != "Success" {
		t.Errorf("init: %+v", a)
	}
	if log := testnode.Read(t, filepath.Dir(facts), "log"); !strings.Contains(log, "look at the directory "+facts) {
		t.Errorf("init could look: %s", log)
	}
	if s := d.Status(); s.Daemon.Takeovers != 0 || s.Facts.Stale {
		t.Errorf("%+v, %+v", s.Daemon, s.Facts)
	}
	if got := testnode.Read(t, volume, "node.zone"); got != "eu-1\n" {
		t.Errorf("%q", got)
	}
}
