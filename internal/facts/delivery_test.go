package facts

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

const installer = "example.com~facts"

func deliver(t *testing.T, dir string, facts map[string]string) {
	t.Helper()
	if err := (Delivery{Fixed: facts}).To(dir, installer); err != nil {
		t.Fatal(err)
	}
}

func TestAForgedListOfDeliveredFactsRemovesNothing(t *testing.T) {
	dir := t.TempDir()
	deliver(t, dir, map[string]string{"rack": "r12"})
	list, _ := filepath.Glob(filepath.Join(dir, ".delivered-by-*"))
	if len(list) != 1 {
		t.Fatalf("lists: %q", list)
	}
	victim := filepath.Join(t.TempDir(), "victim")
	for what, forged := range map[string]map[string][]string{
		"a fact":      {"names": {"../" + filepath.Base(filepath.Dir(victim)) + "/victim"}},
		"a directory": {"made": {victim}},
	} {
		text, err := json.Marshal(forged)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(os.WriteFile(victim, nil, 0o600), os.WriteFile(list[0], text, 0o600)); err != nil {
			t.Fatal(err)
		}
		for _, err := range []error{Delivery{}.To(dir, installer), Withdraw(dir, installer)} {
			if err == nil || !strings.Contains(err.Error(), "remove it") {
				t.Errorf("%s: %v", what, err)
			}
		}
		if _, err := os.Stat(victim); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestWhatIsInThePlaceOfAFactIsNotRead(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "rack")
	for what, put := range map[string]func() error{
		"a fifo":       func() error { return syscall.Mkfifo(path, 0o600) },
		"a link":       func() error { return os.Symlink("/dev/zero", path) },
		"a large file": func() error { return errors.Join(os.WriteFile(path, nil, 0o600), os.Truncate(path, 1<<40)) },
	} {
		if err := put(); err != nil {
			t.Fatal(err)
		}
		err := Delivery{Fixed: map[string]string{"rack": "r12"}}.To(dir, installer)
		if err == nil || !strings.Contains(err.Error(), "not ours") {
			t.Errorf("%s: %v", what, err)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		deliver(t, dir, map[string]string{"rack": "r12"})
		if err := errors.Join(os.Remove(path), put()); err != nil {
			t.Fatal(err)
		}
		deliver(t, dir, map[string]string{"rack": "r12"}) // in the place of ours
		deliver(t, dir, nil)
	}
}

func TestInstallersThatShareADirectoryDeliverTheirOwn(t *testing.T) {
	dir := t.TempDir()
	deliver(t, dir, map[string]string{"rack": "r12"})
	if err := (Delivery{Fixed: map[string]string{"zone": "eu-1"}}).To(dir, "example.com~others"); err != nil {
		t.Fatal(err)
	}
	deliver(t, dir, map[string]string{"rack": "r12"})
	if err := Withdraw(dir, installer); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "zone")); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "rack")); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

func TestNothingIsDeliveredWithWhatCannotBeAFact(t *testing.T) {
	dir := t.TempDir()
	reserved := func(name string) bool { return name == "kernel" }
	for _, name := range []string{"Zone", "kernel"} {
		err := Delivery{Fixed: map[string]string{"rack": "r12", name: "x"}, Reserved: reserved}.To(dir, installer)
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("in the directory: %v, %v", left, err)
	}
}

func TestWithdrawingLeavesNoList(t *testing.T) {
	dir := t.TempDir()
	deliver(t, dir, map[string]string{"rack": "r12"})
	deliver(t, dir, nil)
	if err := Withdraw(dir, installer); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("in the directory: %v, %v", left, err)
	}
}
