package main_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"example.com/pod-info-fuse/internal/testnode"
)

// placeWithFacts is a place for a driver whose configuration, which it returns,
// names a directory of facts that is not there.
func placeWithFacts(t *testing.T) (d testnode.Driver, config, facts string) {
	t.Helper()
	d = testnode.Place(t)
	base := testnode.Reachable(t)
	facts = filepath.Join(base, "etc", "facts.d")
	config = filepath.Join(base, "config.json")
	testnode.Write(t, config, `{"factsDir":"`+facts+`","log":"off"}`)
	return d, config, facts
}

func TestInstallDeliversFacts(t *testing.T) {
	d, config, facts := placeWithFacts(t)
	from := testnode.NewConfigMap(t, "rack", "r12\n")
	testnode.Write(t, filepath.Join(from.Dir, "empty"), "")
	d.Installs(testnode.Binary, "--config", config, "--facts-from", from.Dir, "--fact", "name=node-1", "--fact", "none=")
	dir := d.Mount()
	if got := testnode.Names(t, dir); !slices.Equal(got, append([]string{"node.name", "node.rack"}, testnode.EveryVolume...)) {
		t.Errorf("listed: %q", got)
	}
	if got := testnode.Read(t, dir, "node.rack") + testnode.Read(t, dir, "node.name"); got != "r12\nnode-1\n" {
		t.Errorf("facts: %q", got)
	}
	d.Must("unmount", dir)
	if output, err := d.Installer(testnode.Binary, "uninstall").CombinedOutput(); err != nil {
		t.Fatalf("uninstall: %v: %s", err, output)
	}
	if _, err := os.Stat(facts); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("uninstall left the directory that install made: %v", err)
	}
}

func TestAWatchDeliversWhatAConfigMapHas(t *testing.T) {
	d, config, facts := placeWithFacts(t)
	from := testnode.NewConfigMap(t, "rack", "r12\n")
	w := d.Watch(testnode.Binary, "install", "--config", config, "--facts-from", from.Dir)
	w.IsReady()
	dir := d.Mount()
	reads := func(want string) {
		t.Helper()
		testnode.Eventually(t, "the fact is "+want, func() bool {
			got, err := os.ReadFile(filepath.Join(dir, "node.rack"))
			return err == nil && string(got) == want || errors.Is(err, fs.ErrNotExist) && want == ""
		})
	}
	reads("r12\n")
	from.Becomes("r13\n")
	reads("r13\n")
	testnode.Write(t, filepath.Join(facts, "rack"), "altered\n")
	reads("r13\n")
	// The watch may be writing into it.
	testnode.Eventually(t, "the directory is removed", func() bool { return os.RemoveAll(facts) == nil })
	reads("r13\n") // in a directory that the daemon was not started with

	testnode.Write(t, filepath.Join(facts, "zone"), "by hand\n")
	from.Becomes("")
	reads("")
	if got := testnode.Read(t, dir, "node.zone"); got != "by hand\n" {
		t.Errorf("the operator's own fact is %q", got)
	}
}

func TestWhatCannotBeDelivered(t *testing.T) {
	d, config, facts := placeWithFacts(t)
	if err := os.MkdirAll(facts, 0o755); err != nil {
		t.Fatal(err)
	}
	testnode.Write(t, filepath.Join(facts, "zone"), "by hand\n")
	for _, row := range []struct{ fact, want string }{
		{"zone=other", "already, and not ours"},
		{"Zone=other", "not plain"},
		{"../zone=other", "not plain"},
		{"big=" + strings.Repeat("x", 64<<10), "more than 65536"},
	} {
		output, err := d.Installer(testnode.Binary, "install", "--config", config, "--fact", row.fact).CombinedOutput()
		if err == nil || !strings.Contains(string(output), row.want) {
			t.Errorf("%.20s: %v: %.300s", row.fact, err, output)
		}
	}
	if got := testnode.Read(t, facts, "zone"); got != "by hand\n" {
		t.Errorf("the operator's own fact is %q", got)
	}
	if got, err := os.ReadDir(facts); len(got) != 1 {
		t.Errorf("in the directory: %v, %v", got, err)
	}
	testnode.Write(t, config, `{"factsDir":"none"}`)
	if output, err := d.Installer(testnode.Binary, "install", "--config", config, "--fact", "a=b").CombinedOutput(); err == nil || !strings.Contains(string(output), "factsDir") {
		t.Errorf("facts are off: %v: %s", err, output)
	}
}

func TestAnInstallerDoesNotWaitForADirectoryThatHangs(t *testing.T) {
	d, config, facts := placeWithFacts(t)
	d.Installs(testnode.Binary, "--config", config, "--fact", "rack=r12")
	testnode.Hang(t, facts)
	output, err := d.Installer(testnode.Binary, "install", "--fact", "rack=r13").CombinedOutput()
	if err == nil || !strings.Contains(string(output), "local file system") {
		t.Errorf("install with a fact: %v: %s", err, output)
	}
	d.Installs(testnode.Binary)
	if output, err := d.Installer(testnode.Binary, "uninstall").CombinedOutput(); err != nil {
		t.Errorf("uninstall: %v: %s", err, output)
	}
}

func TestFactsOfAConfigurationThatCannotBeRead(t *testing.T) {
	d, config, _ := placeWithFacts(t)
	d.Installs(testnode.Binary, "--config", config)
	installed := filepath.Join(filepath.Dir(d.Path), "config.json")
	testnode.Write(t, installed, "{")
	output, err := d.Installer(testnode.Binary, "install", "--fact", "rack=r12").CombinedOutput()
	if err == nil || !strings.Contains(string(output), installed) {
		t.Errorf("%v: %s", err, output)
	}
}
