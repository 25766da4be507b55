package attack

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Whatever does not succeed here would be refused to anybody, and its refusal in
// the daemon would prove nothing.
func TestEachAttackSucceedsForRoot(t *testing.T) {
	victim := exec.Command("sleep", "60")
	if err := victim.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = victim.Process.Kill()
		_ = victim.Wait()
	}()
	runDir := t.TempDir()
	record := filepath.Join(runDir, "volumes", "1.json")
	if err := os.Mkdir(filepath.Dir(record), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(record, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, a := range On(runDir, record, victim.Process.Pid) {
		if err := a.Try(); err != nil {
			t.Errorf("%s: %v", a.Name, err)
		}
	}
}
