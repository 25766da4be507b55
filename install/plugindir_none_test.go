package install

import (
	"strings"
	"testing"
)

func TestThePluginDirectoryWithoutAKubelet(t *testing.T) {
	none := with(configured, "proc/812/cmdline", cmdline("sleep", "1"))
	for name, row := range map[string]struct {
		files     map[string]string
		dir, said string
	}{
		"none is there":     {none, defaultPluginDir, "none of the known directories is there"},
		"no /proc":          {map[string]string{"etc/": ""}, defaultPluginDir, "no kubelet is running"},
		"a known directory": {with(none, "var/lib/kubelet/volumeplugins/", ""), "/var/lib/kubelet/volumeplugins", "this directory is there"},
		"beside the default": {with(none, "opt/libexec/kubernetes/kubelet-plugins/volume/exec/", "", defaultPluginDir[1:]+"/", ""),
			"/opt/libexec/kubernetes/kubelet-plugins/volume/exec", "this directory is there"},
	} {
		dir, why, err := findPluginDir(tree(t, row.files))
		if err != nil || dir != row.dir || !strings.Contains(why, row.said) {
			t.Errorf("%s: %q, %q, %v; want %q, %q", name, dir, why, err, row.dir, row.said)
		}
	}
}

func TestAPluginDirectoryThatCannotBeKnown(t *testing.T) {
	for name, row := range map[string]struct {
		files map[string]string
		said  []string
	}{
		"broken YAML":        {with(configured, file, "staticPodURLHeader: {secret\nvolumePluginDir: [/x"), []string{"config.yaml"}},
		"a list":             {with(configured, file, "volumePluginDir: [/secret]\n"), []string{"config.yaml"}},
		"a relative flag":    {with(configured, "proc/812/cmdline", cmdline("kubelet", "--volume-plugin-dir=plugins")), []string{`relative, "plugins"`}},
		"no such file":       {with(configured, "proc/812/cmdline", cmdline("kubelet", "--config=/none.yaml")), []string{"none.yaml"}},
		"no such drop-ins":   {with(configured, "proc/812/cmdline", cmdline("kubelet", "--config-dir=/none.d")), []string{"none.d", "--config-dir"}},
		"two that disagree":  {with(configured, "proc/813/cmdline", cmdline("kubelet", "--volume-plugin-dir=/other")), []string{"/file", "/other"}},
		"disagree by a file": {with(configured, "proc/813/cmdline", cmdline("kubelet")), []string{"/file", defaultPluginDir}},
	} {
		dir, _, err := findPluginDir(tree(t, row.files))
		if err == nil {
			t.Errorf("%s: %q", name, dir)
			continue
		}
		for _, text := range append(row.said, "--plugin-dir") {
			if !strings.Contains(err.Error(), text) {
				t.Errorf("%s: the error lacks %s: %v", name, text, err)
			}
		}
		if strings.ContainsAny(err.Error(), "\n\x1b") || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: the error is not one plain line, or has the file's values in it: %q", name, err)
		}
	}
}
