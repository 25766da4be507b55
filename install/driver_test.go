package install

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"example.com/pod-info-fuse/flex"
)

// answering is a driver in the language of the shell.
func answering(answer string) string { return "#!/bin/sh\necho '" + answer + "'\n" }

// version is a driver that the kubelet would take.
func version(number string) string { return answering(`{"status":"Success"}`) + "# " + number + "\n" }

// newTarget is a driver's place in a plugin directory, below a new root.
func newTarget(t *testing.T, files map[string]string) Target {
	t.Helper()
	driver, err := flex.ParseName("example.com/facts")
	if err != nil {
		t.Fatal(err)
	}
	return Target{PluginDir: filepath.Join(tree(t, files), "exec"), Driver: driver, Program: "pod-info-fuse"}
}

// content is what is installed, with the binary in a file.
func content(t *testing.T, binary string, config ...byte) Content {
	t.Helper()
	path := filepath.Join(t.TempDir(), "binary")
	if err := os.WriteFile(path, []byte(binary), 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	return Content{file, config}
}

// mustInstall installs, and says whether that changed anything.
func mustInstall(t *testing.T, target Target, c Content) bool {
	t.Helper()
	changed, err := target.Install(c)
	if err != nil {
		t.Fatal(err)
	}
	return changed
}

// listing is all that is below a directory: names, modes, and contents.
func listing(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		var text []byte
		switch info.Mode().Type() {
		case 0:
			text, err = os.ReadFile(path)
		case fs.ModeSymlink:
			var target string
			target, err = os.Readlink(path)
			text = []byte(target)
		}
		name, _ := filepath.Rel(dir, path)
		all[name] = fmt.Sprintf("%v %s", info.Mode(), text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}
