package main_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// configMap is a directory whose files change as a kubelet does it: all at once,
// by a link that becomes another one.
type configMap struct {
	t    *testing.T
	dir  string
	name string // of its one file
	now  string
}

func newConfigMap(t *testing.T, name, content string) *configMap {
	c := &configMap{t: t, dir: t.TempDir(), name: name}
	if err := os.Symlink("..data/"+name, c.file()); err != nil {
		t.Fatal(err)
	}
	c.becomes(content)
	return c
}

func (c *configMap) file() string { return filepath.Join(c.dir, c.name) }

func (c *configMap) becomes(content string) {
	c.t.Helper()
	next, err := os.MkdirTemp(c.dir, "..version-")
	if err != nil {
		c.t.Fatal(err)
	}
	write(c.t, filepath.Join(next, c.name), content)
	link := filepath.Join(c.dir, "..data_tmp")
	if err := errors.Join(os.Symlink(filepath.Base(next), link), os.Rename(link, filepath.Join(c.dir, "..data"))); err != nil {
		c.t.Fatal(err)
	}
	if c.now != "" {
		if err := os.RemoveAll(c.now); err != nil {
			c.t.Fatal(err)
		}
	}
	c.now = next
}

func TestAWatchInstallsTheConfigurationThatAConfigMapHas(t *testing.T) {
	d := place(t)
	config := newConfigMap(t, "config.json", `{"log":"off"}`)
	w := d.watch(binary, "install", "--config", config.file())
	installed := func(want string) {
		t.Helper()
		eventually(t, want+" is installed", func() bool {
			got, err := os.ReadFile(filepath.Join(filepath.Dir(d.path), "config.json"))
			return err == nil && string(got) == want
		})
	}
	installed(`{"log":"off"}`)
	w.isReady()
	log := filepath.Join(t.TempDir(), "log")
	config.becomes(`{"log":"` + log + `"}`)
	installed(`{"log":"` + log + `"}`)
	w.isReady()
	dir := d.mount() // to have somebody log

	config.becomes(`{"log":1}`)
	w.isNotReady("the configuration to install: json: cannot unmarshal number into Go struct field Config.log")
	installed(`{"log":"` + log + `"}`)
	d.killPair()
	eventually(t, "volumes are healed all the same", func() bool { _, err := os.ReadFile(dir + "/pod.uid"); return err == nil })

	if err := os.Remove(config.file()); err != nil {
		t.Fatal(err)
	}
	w.isNotReady("read the configuration to install: openat config.json: no such file or directory")
	if err := os.Symlink("..data/config.json", config.file()); err != nil {
		t.Fatal(err)
	}
	config.becomes(`{}`)
	installed(`{}`)
	w.isReady()
	w.counts(map[string]float64{"repairs_total{}": 0}) // none of these was one
}
