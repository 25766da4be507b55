package main_test

import (
	"os"
	"path/filepath"
	"testing"
)

// closing is a driver that was installed for FlexVolume, and its place for CSI, to which a watch
// moves it.
func closing(t *testing.T) (former, driver installed) {
	former = place(t)
	former.installs(binary)
	driver = former
	driver.path = filepath.Join(t.TempDir(), filepath.Base(filepath.Dir(former.path)), filepath.Base(former.path))
	return former, driver
}

// The kubelet calls init of each driver that it finds when it begins, also of one that stays
// only to unmount. It must not bring an old version back.
func TestTheFormerDriverIsOfTheSameVersion(t *testing.T) {
	former, driver := closing(t)
	dir := former.kubeletDir(podUID)
	former.must("mount", dir, goodOptions)
	w := driver.watch(newer, "install", "--close-flexvolume="+former.pluginDir())
	w.isReady()
	w.logs(former.pluginDir())
	driver.must("init")
	want := driver.status().Version
	for name, d := range map[string]installed{"the driver": driver, "the former": former} {
		d.must("init")
		if got := d.status().Daemon.Active; got == nil || got.Version != want {
			t.Errorf("after init of %s, %+v is active, want version %s", name, got, want)
		}
	}
	// It is mended there as well.
	if err := os.Remove(former.path); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the former driver is back", func() bool { return !notThere(former.path) })
	former.isWhole(newer)
	former.must("unmount", dir)
	eventually(t, "the former driver is gone", func() bool { return notThere(filepath.Dir(former.path)) })
	driver.isWhole(newer)
}

// Only the driver in the kubelet's plugin directory can unmount a FlexVolume, whether its record
// is there or not.
func TestTheFormerDriverStaysWhereRecordsAreLost(t *testing.T) {
	former, driver := closing(t)
	dir := former.kubeletDir(podUID)
	former.must("mount", dir, goodOptions)
	former.pair()
	if err := os.RemoveAll(former.runDir + "/volumes"); err != nil {
		t.Fatal(err)
	}
	w := driver.watch(newer, "install", "--close-flexvolume="+former.pluginDir())
	w.isReady()
	former.must("unmount", dir)
	if count := mountsOn(t, dir); count != 0 {
		t.Errorf("%d mounts on %s", count, dir)
	}
	eventually(t, "the former driver is gone", func() bool { return notThere(filepath.Dir(former.path)) })
}

func notThere(path string) bool {
	_, err := os.Lstat(path)
	return os.IsNotExist(err)
}
