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
		"testdata/before-2.75":  selinux.Off,
		"testdata/since-2.75":   selinux.NoSuch,
		"testdata/no-selinuxfs": selinux.NoSuch,
		treeWith(t, "1 1"):      selinux.On,
		treeWith(t, "0 1"):      selinux.Off, // on is pending
		treeWith(t, "1 0"):      selinux.On,  // off is
		treeWith(t, "1 1\n"):    selinux.On,
	} {
		state, err := selinux.BooleanState(root)
		if err != nil || state != want {
			t.Errorf("%s: %s, %v; want %s", root, state, err, want)
		}
	}
}

// treeWith is a tree that has the boolean with that content.
func treeWith(t *testing.T, content string) (root string) {
	root = t.TempDir()
	err := errors.Join(
		os.Mkdir(filepath.Join(root, "booleans"), 0o755),
		os.WriteFile(filepath.Join(root, "booleans", selinux.UseFUSE), []byte(content), 0o644),
	)
	if err != nil {
		t.Fatal(err)
	}
	return root
}

func TestAStateThatMakesNoSenseIsNotGuessed(t *testing.T) {
	for _, content := range []string{"", "1", "2 2", "on on", "1 1 1"} {
		state, err := selinux.BooleanState(treeWith(t, content))
		if state != selinux.NotKnown || err == nil || !strings.Contains(err.Error(), selinux.UseFUSE) {
			t.Errorf("%q: %s, %v", content, state, err)
		}
	}
}
