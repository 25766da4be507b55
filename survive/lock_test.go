package survive

import (
	"os"
	"path/filepath"
	"testing"
)

// Stop of another driver removes the directory that both run directories are in.
func TestLockWhileTheDirectoryAboveIsRemoved(t *testing.T) {
	above := filepath.Join(t.TempDir(), "above")
	n := Node{RunDir: filepath.Join(above, "run")}
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-end:
				return
			default:
				for _, path := range []string{n.path("lock"), n.RunDir, above} {
					_ = os.Remove(path)
				}
			}
		}
	}()
	defer func() { close(end); <-ended }()
	for range 1000 {
		unlock, err := n.lock(exclusive)
		if err != nil {
			t.Fatal(err)
		}
		unlock()
	}
}
