package confine

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// A driver may have a single file read, and one that is not there: Landlock is in force all
// the same, and lets it read what the rules say.
func TestASingleFileMayBeRead(t *testing.T) {
	dir := os.Getenv("CONFINED_TO")
	if dir == "" {
		dir = t.TempDir()
		for _, name := range []string{"directory/file", "file", "other"} {
			path := filepath.Join(dir, name)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		confined := exec.Command("/proc/self/exe", "-test.run", "^TestASingleFileMayBeRead$")
		confined.Env = append(os.Environ(), "CONFINED_TO="+dir)
		if output, err := confined.CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, output)
		}
		return
	}
	allowed := Rules{Read: []string{filepath.Join(dir, "directory"), filepath.Join(dir, "file"), filepath.Join(dir, "gone")}}
	if err := restrictFiles(allowed); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"directory/file": true, "directory": true, "file": true, "other": false, ".": false} {
		file, err := os.Open(filepath.Join(dir, name))
		if file.Close(); (err == nil) != want {
			t.Errorf("open %s: %v, want %v", name, err, want)
		}
	}
}
