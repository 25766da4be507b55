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

// The version before may not know what is new in the file.
func TestTheBinaryIsReplacedBeforeItsConfiguration(t *testing.T) {
	target := newTarget(t, nil)
	mustInstall(t, target, content(t, version("1"), []byte("first")...))
	events := watch(t, target.Dir())
	mustInstall(t, target, content(t, version("2"), []byte("second")...))
	if got, want := events(), []string{"made facts", "made config.json"}; !slices.Equal(got, want) {
		t.Errorf("the kubelet sees %q, want %q", got, want)
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
	for _, stop := range []string{"/bin/false", "/bin/true"} { // volumes are in use, and then they are not
		binary, err := os.Open(stop)
		if err != nil {
			t.Fatal(err)
		}
		defer binary.Close()
		if err := target.Uninstall(binary, false); (err == nil) != (stop == "/bin/true") {
			t.Fatal(err)
		}
	}
	if want := []string{"second"}; !slices.Equal(withdrawn, want) {
		t.Errorf("it withdrew by %q, want %q", withdrawn, want)
	}
}
