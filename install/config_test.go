package install

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
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
func TestADriverWithdrawsBeforeItsConfigurationGoes(t *testing.T) {
	target := newTarget(t, nil)
	var withdrawn []string
	target.Withdraw = func(dir string) error {
		now, err := os.ReadFile(filepath.Join(dir, ConfigFile))
		withdrawn = append(withdrawn, string(now))
		return err
	}
	mustInstall(t, target, content(t, version("1"), []byte("first")...))
	mustInstall(t, target, content(t, version("2"), []byte("second")...))
	stops, err := os.Open("/bin/true")
	if err != nil {
		t.Fatal(err)
	}
	defer stops.Close()
	if err := target.Uninstall(stops, false); err != nil {
		t.Fatal(err)
	}
	if want := []string{"second"}; !slices.Equal(withdrawn, want) {
		t.Errorf("it withdrew by %q, want %q", withdrawn, want)
	}
}
