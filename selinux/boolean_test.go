package selinux_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"example.com/pod-info-fuse/selinux"
)

// The trees in testdata are parts of /sys/fs/selinux on the machine that
// e2e/selinux runs, with the policies that are described there.
func TestStateOfABoolean(t *testing.T) {
	for root, want := range map[string]selinux.State{
		"testdata/before-2.75":      selinux.Off,
		"testdata/since-2.75":       selinux.NoSuch,
		"testdata/no-selinuxfs":     selinux.NoSuch,
		copyOfTree(t, "1 1").Root:   selinux.On,
		copyOfTree(t, "0 1").Root:   selinux.Off, // on is pending
		copyOfTree(t, "1 0").Root:   selinux.On,  // off is
		copyOfTree(t, "1 1\n").Root: selinux.On,
	} {
		state, err := selinux.Boolean{Root: root, Name: selinux.UseFUSE}.State()
		if err != nil || state != want {
			t.Errorf("%s: %s, %v; want %s", root, state, err, want)
		}
	}
}

// copyOfTree is a tree that can be written to, with a boolean of that content.
func copyOfTree(t *testing.T, content string) selinux.Boolean {
	b := selinux.Boolean{Root: t.TempDir(), Name: selinux.UseFUSE}
	err := errors.Join(
		os.Mkdir(filepath.Join(b.Root, "booleans"), 0o755),
		os.WriteFile(filepath.Join(b.Root, "booleans", b.Name), []byte(content), 0o644),
		os.WriteFile(filepath.Join(b.Root, "commit_pending_bools"), nil, 0o200),
	)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestAStateThatMakesNoSenseIsNotGuessed(t *testing.T) {
	for _, content := range []string{"", "1", "2 2", "on on", "1 1 1"} {
		state, err := copyOfTree(t, content).State()
		if state != selinux.NotKnown || err == nil || !strings.Contains(err.Error(), selinux.UseFUSE) {
			t.Errorf("%q: %s, %v", content, state, err)
		}
	}
}

func TestEnableWritesTheValueAndCommits(t *testing.T) {
	b := copyOfTree(t, "0 0")
	if err := b.Enable(); err != nil {
		t.Fatal(err)
	}
	// A plain file keeps what was in it behind what was written.
	for path, want := range map[string]string{"booleans/" + b.Name: "1 0", "commit_pending_bools": "1"} {
		if got, err := os.ReadFile(filepath.Join(b.Root, path)); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v; want %q", path, got, err, want)
		}
	}
}

func TestEnableMakesNoFiles(t *testing.T) {
	for _, missing := range []string{"booleans/" + selinux.UseFUSE, "commit_pending_bools"} {
		b := copyOfTree(t, "0 0")
		path := filepath.Join(b.Root, missing)
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		err := b.Enable()
		if err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "set "+b.Name) {
			t.Errorf("without %s: %v", missing, err)
		}
		if _, err := os.Stat(path); !os.IsNotExist(err) {
			t.Errorf("%s was made", path)
		}
	}
}
