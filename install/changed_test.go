package install

import (
	"maps"
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
		".":                             "drwxr-xr-x ",
		"example.com~facts":             "drwxr-xr-x ",
		"example.com~facts/facts":       "-rwx--x--x " + version("2"),
		"example.com~facts/config.json": `-rw-r--r-- {"log":"off"}`,
	}
	if now := listing(t, target.PluginDir); !maps.Equal(now, want) {
		t.Errorf("installed: %v, want %v", now, want)
	}
}
