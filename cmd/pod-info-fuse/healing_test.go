package main_test

import (
	"os"
	"path/filepath"
	"testing"
)

// Nobody but the watch calls the driver here, when the daemon has died.
func TestAWatchHealsVolumesWhoseDaemonHasDied(t *testing.T) {
	d := place(t)
	w := d.watch(binary, "install")
	w.isReady()
	dir := d.mount()
	w.counts(map[string]float64{`mount{state="ok"}`: 1, `mount{state="dead"}`: 0, `volumes{state="ok"}`: 1})
	container := startContainer(t, dir)
	d.killPair()
	eventually(t, "the volume reads again", func() bool {
		got, err := os.ReadFile(dir + "/pod.uid")
		return err == nil && string(got) == podUID+"\n"
	})
	w.logs("the daemon had died, and the driver was called to heal its volumes")
	w.isReady()
	w.counts(map[string]float64{`mount{state="ok"}`: 1, `mount{state="dead"}`: 0, `volumes{state="ok"}`: 1, `repairs_total{}`: 0})
	if got := container.read("volume/pod.uid"); got != podUID {
		t.Errorf("in the container: %q", got)
	}
}

func TestAWatchTellsOfBrokenNeighbours(t *testing.T) {
	d := place(t)
	w := d.watch(binary, "install")
	w.isReady()
	w.counts(map[string]float64{"broken_neighbours{}": 0})
	neighbour := filepath.Join(d.pluginDir(), "acme~facts")
	if err := os.Mkdir(neighbour, 0o755); err != nil {
		t.Fatal(err)
	}
	w.logs("the driver in acme~facts is broken, and may keep an old kubelet from finding ours: it has no file facts")
	w.counts(map[string]float64{"broken_neighbours{}": 1})
	w.isReady() // it is not our business
	write(t, neighbour+"/facts", "#!/bin/sh\n")
	w.logs("facts is not executable")
	if err := os.Chmod(neighbour+"/facts", 0o755); err != nil {
		t.Fatal(err)
	}
	w.counts(map[string]float64{"broken_neighbours{}": 0})
}
