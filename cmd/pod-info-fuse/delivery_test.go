package main_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// placeWithFacts is a place for a driver whose configuration, which it returns,
// names a directory of facts that is not there.
func placeWithFacts(t *testing.T) (d installed, config, facts string) {
	t.Helper()
	d = place(t)
	base := reachable(t)
	facts = filepath.Join(base, "etc", "facts.d")
	config = filepath.Join(base, "config.json")
	write(t, config, `{"factsDir":"`+facts+`","log":"off"}`)
	return d, config, facts
}

func TestInstallDeliversFacts(t *testing.T) {
	d, config, facts := placeWithFacts(t)
	from := newConfigMap(t, "rack", "r12\n")
	write(t, filepath.Join(from.dir, "empty"), "")
	d.installs(binary, "--config", config, "--facts-from", from.dir, "--fact", "name=node-1", "--fact", "none=")
	dir := d.mount()
	if got := names(t, dir); !slices.Equal(got, append([]string{"node.name", "node.rack"}, everyVolume...)) {
		t.Errorf("listed: %q", got)
	}
	if got := read(t, dir, "node.rack") + read(t, dir, "node.name"); got != "r12\nnode-1\n" {
		t.Errorf("facts: %q", got)
	}
	d.must("unmount", dir)
	if output, err := d.installer(binary, "uninstall").CombinedOutput(); err != nil {
		t.Fatalf("uninstall: %v: %s", err, output)
	}
	if _, err := os.Stat(filepath.Dir(facts)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("uninstall left the directories that install made: %v", err)
	}
}

func TestAWatchDeliversWhatAConfigMapHas(t *testing.T) {
	d, config, facts := placeWithFacts(t)
	from := newConfigMap(t, "rack", "r12\n")
	w := d.watch(binary, "install", "--config", config, "--facts-from", from.dir)
	w.isReady()
	dir := d.mount()
	reads := func(want string) {
		t.Helper()
		eventually(t, "the fact is "+want, func() bool {
			got, err := os.ReadFile(filepath.Join(dir, "node.rack"))
			return err == nil && string(got) == want || errors.Is(err, fs.ErrNotExist) && want == ""
		})
	}
	reads("r12\n")
	from.becomes("r13\n")
	reads("r13\n")
	write(t, filepath.Join(facts, "rack"), "altered\n")
	reads("r13\n")
	// The watch may be writing into it.
	eventually(t, "the directory is removed", func() bool { return os.RemoveAll(facts) == nil })
	reads("r13\n") // in a directory that the daemon was not started with

	write(t, filepath.Join(facts, "zone"), "by hand\n")
	from.becomes("")
	reads("")
	if got := read(t, dir, "node.zone"); got != "by hand\n" {
		t.Errorf("the operator's own fact is %q", got)
	}
}

func TestWhatCannotBeDelivered(t *testing.T) {
	d, config, facts := placeWithFacts(t)
	if err := os.MkdirAll(facts, 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(facts, "zone"), "by hand\n")
	for _, row := range []struct{ fact, want string }{
		{"zone=other", "is there already, and not ours"},
		{"Zone=other", "not plain"},
		{"../zone=other", "not plain"},
		{"big=" + strings.Repeat("x", 64<<10), "more than 65536"},
	} {
		output, err := d.installer(binary, "install", "--config", config, "--fact", row.fact).CombinedOutput()
		if err == nil || !strings.Contains(string(output), row.want) {
			t.Errorf("%.20s: %v: %.300s", row.fact, err, output)
		}
	}
	if got := read(t, facts, "zone"); got != "by hand\n" {
		t.Errorf("the operator's own fact is %q", got)
	}
	if got, err := os.ReadDir(facts); len(got) != 1 {
		t.Errorf("in the directory: %v, %v", got, err)
	}
	write(t, config, `{"factsDir":"none"}`)
	if output, err := d.installer(binary, "install", "--config", config, "--fact", "a=b").CombinedOutput(); err == nil || !strings.Contains(string(output), "factsDir") {
		t.Errorf("facts are off: %v: %s", err, output)
	}
}

func TestAnInstallerDoesNotWaitForADirectoryThatHangs(t *testing.T) {
	d, config, facts := placeWithFacts(t)
	d.installs(binary, "--config", config, "--fact", "rack=r12")
	hang(t, facts)
	output, err := d.installer(binary, "install", "--fact", "rack=r13").CombinedOutput()
	if err == nil || !strings.Contains(string(output), "local file system") {
		t.Errorf("install with a fact: %v: %s", err, output)
	}
	d.installs(binary)
	if output, err := d.installer(binary, "uninstall").CombinedOutput(); err != nil {
		t.Errorf("uninstall: %v: %s", err, output)
	}
}

func TestFactsGoWithTheirDirectory(t *testing.T) {
	d, config, facts := placeWithFacts(t)
	d.installs(binary, "--config", config, "--fact", "rack=r12")
	other := filepath.Join(filepath.Dir(config), "other")
	write(t, config, `{"factsDir":"`+other+`","log":"off"}`)
	d.installs(binary, "--config", config, "--fact", "rack=r12")
	if _, err := os.Stat(facts); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("left in the directory of before: %v", err)
	}
	if got := read(t, other, "rack"); got != "r12\n" {
		t.Errorf("in the new one: %q", got)
	}
}

func TestFactsOfAConfigurationThatCannotBeRead(t *testing.T) {
	d, config, _ := placeWithFacts(t)
	d.installs(binary, "--config", config)
	installed := filepath.Join(filepath.Dir(d.path), "config.json")
	write(t, installed, "{")
	output, err := d.installer(binary, "install", "--fact", "rack=r12").CombinedOutput()
	if err == nil || !strings.Contains(string(output), installed) {
		t.Errorf("%v: %s", err, output)
	}
}
