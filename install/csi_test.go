package install

import (
	"os"
	"path/filepath"
	"testing"

	"example.com/pod-info-fuse/survive"
	"example.com/pod-info-fuse/survive/volume"
)

// A FlexVolume can be unmounted by the driver in the kubelet's plugin directory only, and a
// CSI volume, or one of another driver, does not need it.
func TestFlexVolumeIsClosedWhenNoneIsMounted(t *testing.T) {
	target := newTarget(t, nil)
	mustInstall(t, target, content(t, version("1")))
	node := survive.Driver{Program: "pod-info-fuse", Version: "1"}.NodeFor(target.Driver, survive.Settings{Log: "off"})
	node.RunDir = t.TempDir()
	volumes := node.Volumes()
	if err := os.Mkdir(volumes.Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	const uid = "1d1cd94a-5a5e-4b6c-a8c5-2c6c2ea0b4a1"
	record := func(plugin, rest string) volume.Record {
		r := volume.Record{Dir: "/var/lib/kubelet/pods/" + uid + "/volumes/" + plugin + "/info" + rest, PodUID: uid}
		if err := volumes.Put(r); err != nil {
			t.Fatal(err)
		}
		return r
	}
	mounted := record(target.Driver.Dir(), "")
	record("other.example.com~driver", "")
	record(volume.CSIPlugin, "/mount")
	for range 2 {
		if inUse, err := target.CloseFlexVolume(node); err != nil || inUse != mounted.Dir {
			t.Errorf("with a FlexVolume: %q, %v, want %q", inUse, err, mounted.Dir)
		}
		if info, err := os.Stat(target.Binary()); err != nil || info.Mode().Perm() != 0o711 {
			t.Errorf("with a FlexVolume, the driver is %v, %v", info, err)
		}
	}
	// One that cannot be read may be one.
	damaged := filepath.Join(volumes.Dir, mounted.ID().String()+".json")
	if err := os.WriteFile(damaged, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if inUse, err := target.CloseFlexVolume(node); err != nil || inUse == "" {
		t.Errorf("with a damaged record: %q, %v", inUse, err)
	}
	if err := volumes.Delete(mounted.ID()); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if inUse, err := target.CloseFlexVolume(node); err != nil || inUse != "" {
			t.Errorf("without: %q, %v", inUse, err)
		}
		if names, err := os.ReadDir(target.PluginDir); err != nil || len(names) > 0 {
			t.Errorf("in the plugin directory: %v, %v", names, err)
		}
	}
}
