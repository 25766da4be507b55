package install

import (
	"errors"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"example.com/pod-info-fuse/survive"
)

func TestAConfigurationThatTheDriverRefusesIsNotInstalled(t *testing.T) {
	target := newTarget(t, map[string]string{"exec/example.com~facts/facts": version("0"), "exec/example.com~facts/config.json": "{}"})
	target.CheckConfig = func(content []byte) error { return errors.New(string(content) + " is none") }
	was := listing(t, target.PluginDir)
	changed, err := target.Install(content(t, version("1"), []byte("it")...))
	if err == nil || changed || !strings.Contains(err.Error(), "the configuration to install: it is none") {
		t.Errorf("%v, %v", changed, err)
	}
	if now := listing(t, target.PluginDir); !maps.Equal(was, now) {
		t.Errorf("the plugin directory was %v and is %v", was, now)
	}
}

// Only the configuration says what the driver has elsewhere on the node.
func TestADriverLeavesBeforeItsConfigurationGoes(t *testing.T) {
	target := newTarget(t, nil)
	var left []string
	target.Leave = func(t Target, next []byte) func() error {
		now, _ := os.ReadFile(t.config())
		return func() error {
			left = append(left, string(now)+" for "+string(next))
			return nil
		}
	}
	mustInstall(t, target, content(t, version("1"), []byte("first")...))
	mustInstall(t, target, content(t, version("2"))) // with the same configuration
	mustInstall(t, target, content(t, version("2"), []byte("second")...))
	stops, err := os.Open("/bin/true")
	if err != nil {
		t.Fatal(err)
	}
	defer stops.Close()
	if err := target.Uninstall(stops, false); err != nil {
		t.Fatal(err)
	}
	if want := []string{" for first", "first for second", "second for "}; !slices.Equal(left, want) {
		t.Errorf("it left %q, want %q", left, want)
	}
}

// What is wrong elsewhere on the node keeps no new version out.
func TestAVersionIsInstalledWhereTheOneBeforeCannotLeave(t *testing.T) {
	target := newTarget(t, nil)
	mustInstall(t, target, content(t, version("1"), []byte("first")...))
	two := content(t, version("2"), []byte("second")...)
	target.Leave = func(Target, []byte) func() error { return func() error { return errors.New("a forged list") } }
	k := &Keeper{
		Target: target, Binary: two.Binary, Config: func() ([]byte, error) { return two.Config, nil },
		Node: survive.Driver{Program: target.Program}.NodeFor(target.Driver, survive.Settings{Log: "off"}), Log: t.Logf,
	}
	if err := k.Look(); err == nil || !strings.Contains(err.Error(), "is installed, but: a forged list") {
		t.Errorf("the first look: %v", err)
	}
	if err := k.Look(); err != nil {
		t.Errorf("the second look: %v", err)
	}
	if now, err := os.ReadFile(target.Binary()); string(now) != version("2") {
		t.Errorf("it is %q, %v", now, err)
	}
	if now, err := os.ReadFile(target.config()); string(now) != "second" {
		t.Errorf("the configuration is %q, %v", now, err)
	}
}
