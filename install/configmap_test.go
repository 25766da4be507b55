package install_test

import (
	"os"
	"path/filepath"
	"testing"

	"example.com/pod-info-fuse/internal/testnode"
)

func TestAWatchInstallsTheConfigurationThatAConfigMapHas(t *testing.T) {
	d := testnode.Place(t)
	config := testnode.NewConfigMap(t, "config.json", `{"log":"off"}`)
	w := d.Watch(testnode.Binary, "install", "--config", config.File())
	installed := func(want string) {
		t.Helper()
		testnode.Eventually(t, want+" is installed", func() bool {
			got, err := os.ReadFile(filepath.Join(filepath.Dir(d.Path), "config.json"))
			return err == nil && string(got) == want
		})
	}
	installed(`{"log":"off"}`)
	w.IsReady()
	log := filepath.Join(t.TempDir(), "log")
	config.Becomes(`{"log":"` + log + `"}`)
	installed(`{"log":"` + log + `"}`)
	w.IsReady()
	dir := d.Mount() // to have somebody log

	config.Becomes(`{"log":1}`)
	w.IsNotReady("the configuration to install: json: cannot unmarshal number into Go struct field Config.log")
	installed(`{"log":"` + log + `"}`)
	d.KillPair()
	testnode.Eventually(t, "volumes are healed all the same", func() bool { _, err := os.ReadFile(dir + "/pod.uid"); return err == nil })

	if err := os.Remove(config.File()); err != nil {
		t.Fatal(err)
	}
	w.IsNotReady("read the configuration to install: openat config.json: no such file or directory")
	if err := os.Symlink("..data/config.json", config.File()); err != nil {
		t.Fatal(err)
	}
	config.Becomes(`{}`)
	installed(`{}`)
	w.IsReady()
	w.Counts(map[string]float64{"repairs_total{}": 0}) // none of these was one
}
