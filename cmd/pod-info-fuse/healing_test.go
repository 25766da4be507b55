package main_test

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
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
	eventually(t, "the volume reads again in the container", func() bool { return container.read("volume/pod.uid") == podUID })
}

// A file system that a call-out has just mounted has no daemon yet.
func TestAWatchDoesNotCallADriverThatStartsItsDaemon(t *testing.T) {
	d := place(t)
	w := d.watch(binary, "install")
	w.isReady()
	dir := d.mount()
	lock, err := os.Open(d.runDir + "/lock")
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	d.killPair()
	w.isNotReady("a call-out starts or ends the daemon")
	w.counts(map[string]float64{`callouts_total{callout="init",outcome="Success"}`: 0})
	lock.Close()
	eventually(t, "the volume reads again", func() bool { _, err := os.ReadFile(dir + "/pod.uid"); return err == nil })
}
