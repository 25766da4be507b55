package main_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/survive/volume"
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
	w.counts(map[string]float64{`callouts_total{callout="init",outcome="success"}`: 0})
	lock.Close()
	eventually(t, "the volume reads again", func() bool { _, err := os.ReadFile(dir + "/pod.uid"); return err == nil })
}

// What an unmount removes before its turn comes is neither healed nor missed; what is still mounted is missed.
func TestAVolumeThatIsUnmountedWhileItWaitsToBeHealed(t *testing.T) {
	d := install(t)
	dir := d.mount()
	subPath := filepath.Join(t.TempDir(), "pod.uid")
	write(t, subPath, "")
	if err := unix.Mount(dir+"/pod.uid", subPath, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(subPath, unix.MNT_DETACH) })
	d.killPair()
	lock, err := os.OpenFile(d.runDir+"/lock", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	// As unmount does it, see survive's LockVolume.
	if err := unix.FcntlFlock(lock.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_WRLCK, Start: int64(volume.NewID(dir)), Len: 1}); err != nil {
		t.Fatal(err)
	}
	restore := d.command("restore")
	var said strings.Builder
	restore.Stdout, restore.Stderr = &said, &said
	if err := restore.Start(); err != nil {
		t.Fatal(err)
	}
	// Before it serves, it waits for the lock as long as a call-out does, to see whether the record is there.
	eventually(t, "the daemon serves", func() bool { return d.status().Mount.State == "ok" })
	eventually(t, "the volume's turn has come, by the lock file, which is open again for it", func() bool {
		files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", restore.Process.Pid))
		return len(slices.DeleteFunc(files, func(path string) bool { to, _ := os.Readlink(path); return to != lock.Name() })) == 2
	})
	if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
		t.Fatal(err)
	}
	for _, record := range d.records() {
		if err := os.Remove(record); err != nil {
			t.Fatal(err)
		}
	}
	lock.Close()
	want := "not healed: " + subPath + ": it has no record: the volume was unmounted, or its record is lost\n"
	if err := restore.Wait(); err == nil || !strings.Contains(said.String(), want) || strings.Contains(said.String(), dir) {
		t.Errorf("restore: %v: %swant %s", err, said.String(), want)
	}
}
