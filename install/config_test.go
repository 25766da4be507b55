package install

import (
	"maps"
	"strings"
	"testing"
)

func TestABadConfigurationIsNotInstalled(t *testing.T) {
	for config, said := range map[string]string{
		`{"logg":"off"}`:           `"logg"`,
		`{"log":"somewhere"}`:      "log is",
		`{"selinuxContext":"a b"}`: "selinuxContext",
		`{"log":"off"} {}`:         "after the JSON object",
		``:                         "EOF",
		`["off"]`:                  "cannot unmarshal array",
		"\xef\xbb\xbf{}":           "invalid character",
		`{"log":"off","log":"off"`: "unexpected EOF",
	} {
		target := newTarget(t, map[string]string{"exec/example.com~facts/facts": version("0"), "exec/example.com~facts/config.json": "{}"})
		was := listing(t, target.PluginDir)
		c := content(t, version("1"))
		c.Config = []byte(config)
		if changed, err := target.Install(c); err == nil || changed || !strings.Contains(err.Error(), "the configuration to install: ") || !strings.Contains(err.Error(), said) {
			t.Errorf("%s: %v, %v; want %q", config, changed, err, said)
		}
		if now := listing(t, target.PluginDir); !maps.Equal(was, now) {
			t.Errorf("%s: the plugin directory was %v and is %v", config, was, now)
		}
	}
}
