package install

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"example.com/pod-info-fuse/flex"
)

// installedWithFacts installs a driver whose directory of facts, which it returns,
// is there.
func installedWithFacts(t *testing.T) (target Target, dir string) {
	t.Helper()
	target, dir = newTarget(t, nil), t.TempDir()
	mustInstall(t, target, content(t, version("1"), []byte(`{"factsDir":"`+dir+`"}`)...))
	return target, dir
}

func deliver(t *testing.T, target Target, facts map[string]string) {
	t.Helper()
	if err := (Facts{Fixed: facts}).Deliver(target); err != nil {
		t.Fatal(err)
	}
}

func TestAForgedListOfDeliveredFactsRemovesNothing(t *testing.T) {
	target, dir := installedWithFacts(t)
	deliver(t, target, map[string]string{"rack": "r12"})
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
		for _, err := range []error{Facts{}.Deliver(target), target.removeFacts(dir)} {
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
	target, dir := installedWithFacts(t)
	path := filepath.Join(dir, "rack")
	for what, put := range map[string]func() error{
		"a fifo":       func() error { return syscall.Mkfifo(path, 0o600) },
		"a link":       func() error { return os.Symlink("/dev/zero", path) },
		"a large file": func() error { return errors.Join(os.WriteFile(path, nil, 0o600), os.Truncate(path, 1<<40)) },
	} {
		if err := put(); err != nil {
			t.Fatal(err)
		}
		err := Facts{Fixed: map[string]string{"rack": "r12"}}.Deliver(target)
		if err == nil || !strings.Contains(err.Error(), "not ours") {
			t.Errorf("%s: %v", what, err)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		deliver(t, target, map[string]string{"rack": "r12"})
		if err := errors.Join(os.Remove(path), put()); err != nil {
			t.Fatal(err)
		}
		deliver(t, target, map[string]string{"rack": "r12"}) // in the place of ours
		deliver(t, target, nil)
	}
}

func TestDriversThatShareADirectoryDeliverTheirOwn(t *testing.T) {
	one, dir := installedWithFacts(t)
	two := one
	var err error
	if two.Driver, err = flex.ParseName("example.com/others"); err != nil {
		t.Fatal(err)
	}
	binary := content(t, version("1"), []byte(`{"factsDir":"`+dir+`"}`)...)
	mustInstall(t, two, binary)
	deliver(t, one, map[string]string{"rack": "r12"})
	deliver(t, two, map[string]string{"zone": "eu-1"})
	deliver(t, one, map[string]string{"rack": "r12"})
	if err := one.removeFacts(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "zone")); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "rack")); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

func TestFactsGoWithTheirDirectory(t *testing.T) {
	target, dir := installedWithFacts(t)
	deliver(t, target, map[string]string{"rack": "r12"})
	mustInstall(t, target, content(t, version("1"), []byte(`{"factsDir":"`+t.TempDir()+`"}`)...))
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("left in the directory of before: %v, %v", left, err)
	}
}

func TestFactsOfAConfigurationThatCannotBeRead(t *testing.T) {
	target, _ := installedWithFacts(t)
	if err := os.WriteFile(target.config(), []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	err := Facts{Fixed: map[string]string{"rack": "r12"}}.Deliver(target)
	if err == nil || !strings.Contains(err.Error(), target.config()) {
		t.Errorf("%v", err)
	}
}
