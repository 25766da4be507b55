package install_test

import (
	"os"
	"path/filepath"
	"testing"

	"example.com/pod-info-fuse/internal/testnode"
)

// closing is a driver that was installed for FlexVolume, and its place for CSI, to which a watch
// moves it.
func closing(t *testing.T) (former, driver testnode.Driver) {
	former = testnode.Place(t)
	former.Installs(testnode.Binary)
	driver = former
	driver.Path = filepath.Join(t.TempDir(), filepath.Base(filepath.Dir(former.Path)), filepath.Base(former.Path))
	return former, driver
}

// The kubelet calls init of each driver that it finds when it begins, also of one that stays
// only to unmount. It must not bring an old version back.
func TestTheFormerDriverIsOfTheSameVersion(t *testing.T) {
	former, driver := closing(t)
	dir := former.KubeletDir(testnode.PodUID)
	former.Must("mount", dir, testnode.GoodOptions)
	w := driver.Watch(testnode.Newer, "install", "--close-flexvolume="+former.PluginDir())
	w.IsReady()
	w.Logs(former.PluginDir())
	driver.Must("init")
	want := driver.Status().Version
	for name, d := range map[string]testnode.Driver{"the driver": driver, "the former": former} {
		d.Must("init")
		if got := d.Status().Daemon.Active; got == nil || got.Version != want {
			t.Errorf("after init of %s, %+v is active, want version %s", name, got, want)
		}
	}
	// It is mended there as well.
	if err := os.Remove(former.Path); err != nil {
		t.Fatal(err)
	}
	testnode.Eventually(t, "the former driver is back", func() bool { return !notThere(former.Path) })
	former.IsWhole(testnode.Newer)
	former.Must("unmount", dir)
	testnode.Eventually(t, "the former driver is gone", func() bool { return notThere(filepath.Dir(former.Path)) })
	driver.IsWhole(testnode.Newer)
}

// Only the driver in the kubelet's plugin directory can unmount a FlexVolume, whether its record
// is there or not.
func TestTheFormerDriverStaysWhereRecordsAreLost(t *testing.T) {
	former, driver := closing(t)
	dir := former.KubeletDir(testnode.PodUID)
	former.Must("mount", dir, testnode.GoodOptions)
	former.Pair()
	if err := os.RemoveAll(former.RunDir + "/volumes"); err != nil {
		t.Fatal(err)
	}
	w := driver.Watch(testnode.Newer, "install", "--close-flexvolume="+former.PluginDir())
	w.IsReady()
	former.Must("unmount", dir)
	if count := testnode.MountsOn(t, dir); count != 0 {
		t.Errorf("%d mounts on %s", count, dir)
	}
	testnode.Eventually(t, "the former driver is gone", func() bool { return notThere(filepath.Dir(former.Path)) })
}

func notThere(path string) bool {
	_, err := os.Lstat(path)
	return os.IsNotExist(err)
}
