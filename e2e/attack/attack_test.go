package attack

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/internal/confine"
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
	counters, err := os.OpenFile(filepath.Join(runDir, "counters"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer counters.Close()
	if _, err := counters.WriteString("counts"); err != nil {
		t.Fatal(err)
	}
	arrived, end, err := Listen()
	if err != nil {
		t.Fatal(err)
	}
	defer end()
	log, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(log[0])
	defer unix.Close(log[1])
	for _, a := range On(confine.Rules{}, runDir, record, victim.Process.Pid, log[0]) {
		if err := a.Try(); err != nil {
			t.Errorf("%s: %v", a.Name, err)
		}
	}
	if got := arrived(); got != 16 {
		t.Errorf("the other service got %d datagrams, want 16", got)
	}
}
