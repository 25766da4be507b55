package install

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// tree makes a root directory with files: paths and contents. A path that ends in
// a slash is a directory, and a content that begins with "-> " a link.
func tree(t *testing.T, files map[string]string) (root string) {
	t.Helper()
	root = t.TempDir()
	for name := range files { // who runs is root, unless files say who
		status := strings.TrimSuffix(name, "cmdline") + "status"
		if _, said := files[status]; !said && strings.HasSuffix(name, "/cmdline") {
			files = with(files, status, "Uid:\t0\t0\t0\t0\nCapEff:\t000001ffffffffff\n")
		}
	}
	for name, content := range files {
		path := filepath.Join(root, name)
		err := os.MkdirAll(filepath.Dir(path), 0o755)
		switch target, link := strings.CutPrefix(content, "-> "); {
		case strings.HasSuffix(name, "/"):
			err = errors.Join(err, os.Mkdir(path, 0o755))
		case link:
			err = errors.Join(err, os.Symlink(target, path))
		default:
			err = errors.Join(err, os.WriteFile(path, []byte(content), 0o644))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// with returns the files with more of them.
func with(files map[string]string, more ...string) map[string]string {
	all := map[string]string{}
	for name, content := range files {
		all[name] = content
	}
	for i := 0; i < len(more); i += 2 {
		all[more[i]] = more[i+1]
	}
	return all
}

// cmdline is the content of a process's file of that name.
func cmdline(args ...string) string { return strings.Join(args, "\x00") + "\x00" }
