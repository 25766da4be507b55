package install

import (
	"maps"
	"os"
	"strings"
	"testing"
)

func TestInstallSaysWhetherItChangedAnything(t *testing.T) {
	target := newTarget(t, nil)
	one := content(t, version("1"))
	if !mustInstall(t, target, one) {
		t.Error("the first time, nothing changed")
	}
	first := stamp(target.Binary())
	if mustInstall(t, target, one) || stamp(target.Binary()) != first {
		t.Error("the second time, the binary changed")
	}
	one.Config = []byte(`{"log":"off"}`)
	if !mustInstall(t, target, one) {
		t.Error("with a configuration, nothing changed")
	}
	configured := stamp(target.config())
	if mustInstall(t, target, one) || stamp(target.config()) != configured {
		t.Error("the same configuration is another one")
	}
	two := content(t, version("2"))
	if !mustInstall(t, target, two) {
		t.Error("another version changed nothing")
	}
	want := map[string]string{
		".":                                 "drwxr-xr-x ",
		"example.com~facts":                 "drwxr-xr-x ",
		"example.com~facts/facts":           "-rwx--x--x " + version("2"),
		"example.com~facts/config.json":     `-rw-r--r-- {"log":"off"}`,
		"example.com~facts/.facts.previous": "-rwx--x--x " + version("1"),
	}
	if now := listing(t, target.PluginDir); !maps.Equal(now, want) {
		t.Errorf("installed: %v, want %v", now, want)
	}
}

func TestRollbackIsTheVersionBefore(t *testing.T) {
	target := newTarget(t, nil)
	if err := target.Rollback(); err == nil || !strings.Contains(err.Error(), target.Dir()+" has no version before") {
		t.Errorf("nothing is installed: %v", err)
	}
	c := content(t, version("1"), []byte("{}")...)
	mustInstall(t, target, c)
	if err := target.Rollback(); err == nil || !strings.Contains(err.Error(), "has no version before the present one") {
		t.Errorf("there was no version before: %v", err)
	}
	two := content(t, version("2"), []byte(`{"log":"off"}`)...)
	mustInstall(t, target, two)
	mustInstall(t, target, two) // is no version of its own
	for _, want := range []string{"1", "2", "1"} {
		if err := target.Rollback(); err != nil {
			t.Fatal(err)
		}
		binary, errBinary := os.ReadFile(target.Binary())
		config, errConfig := os.ReadFile(target.config())
		if string(binary) != version(want) || string(config) != `{"log":"off"}` {
			t.Errorf("%q and %q, %v, %v; want version %s, and the configuration as it was", binary, config, errBinary, errConfig, want)
		}
	}
}

// A version that was altered, and repaired, is none to go back to.
func TestARepairIsNoVersion(t *testing.T) {
	target := newTarget(t, nil)
	mustInstall(t, target, content(t, version("1")))
	two := content(t, version("2"))
	mustInstall(t, target, two)
	for _, altered := range []string{"", "text\n", version("2")[:20]} {
		if err := os.WriteFile(target.Binary(), []byte(altered), 0o755); err != nil {
			t.Fatal(err)
		}
		mustInstall(t, target, two)
	}
	if err := target.Rollback(); err != nil {
		t.Fatal(err)
	}
	if now, err := os.ReadFile(target.Binary()); string(now) != version("1") {
		t.Errorf("it is %q, %v", now, err)
	}
}
