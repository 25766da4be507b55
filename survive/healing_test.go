package survive_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/internal/testnode"
	"example.com/pod-info-fuse/survive/volume"
)

// Nobody but the watch calls the driver here, when the daemon has died.
func TestAWatchHealsVolumesWhoseDaemonHasDied(t *testing.T) {
	d := testnode.Place(t)
	w := d.Watch(testnode.Binary, "install")
	w.IsReady()
	dir := d.Mount()
	w.Counts(map[string]float64{`mount{state="ok"}`: 1, `mount{state="dead"}`: 0, `volumes{state="ok"}`: 1})
	container := startContainer(t, dir)
	d.KillPair()
	testnode.Eventually(t, "the volume reads again", func() bool {
		got, err := os.ReadFile(dir + "/pod.uid")
		return err == nil && string(got) == testnode.PodUID+"\n"
	})
	w.Logs("the daemon had died, and the driver was called to heal its volumes")
	w.IsReady()
	w.Counts(map[string]float64{`mount{state="ok"}`: 1, `mount{state="dead"}`: 0, `volumes{state="ok"}`: 1, `repairs_total{}`: 0})
	testnode.Eventually(t, "the volume reads again in the container", func() bool { return container.read("volume/pod.uid") == testnode.PodUID })
}

// A file system that a call-out has just mounted has no daemon yet.
func TestAWatchDoesNotCallADriverThatStartsItsDaemon(t *testing.T) {
	d := testnode.Place(t)
	w := d.Watch(testnode.Binary, "install")
	w.IsReady()
	dir := d.Mount()
	lock, err := os.Open(d.RunDir + "/lock")
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	d.KillPair()
	w.IsNotReady("a call-out starts or ends the daemon")
	w.Counts(map[string]float64{`callouts_total{callout="init",outcome="success"}`: 0})
	lock.Close()
	testnode.Eventually(t, "the volume reads again", func() bool { _, err := os.ReadFile(dir + "/pod.uid"); return err == nil })
}

// What an unmount removes before its turn comes is neither healed nor missed; what is still mounted
// is missed.
func TestAVolumeThatIsUnmountedWhileItWaitsToBeHealed(t *testing.T) {
	d := testnode.Install(t)
	dir := d.Mount()
	subPath := filepath.Join(t.TempDir(), "pod.uid")
	testnode.Write(t, subPath, "")
	if err := unix.Mount(dir+"/pod.uid", subPath, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(subPath, unix.MNT_DETACH) })
	d.KillPair()
	lock, err := os.OpenFile(d.RunDir+"/lock", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	// As unmount does it, see survive's LockVolume.
	if err := unix.FcntlFlock(lock.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_WRLCK, Start: int64(volume.NewID(dir)), Len: 1}); err != nil {
		t.Fatal(err)
	}
	restore := d.Command("restore")
	var said strings.Builder
	restore.Stdout, restore.Stderr = &said, &said
	if err := restore.Start(); err != nil {
		t.Fatal(err)
	}
	testnode.Eventually(t, "the daemon serves", func() bool { return d.Status().Mount.State == "ok" })
	turns := 0 // looks in a row
	testnode.Eventually(t, "the volume's turn has come: the lock file is open for it, and nobody else waits", func() bool {
		files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", restore.Process.Pid))
		files = slices.DeleteFunc(files, func(path string) bool { to, _ := os.Readlink(path); return to != lock.Name() })
		if turns++; len(files) != 1 || unix.Flock(int(lock.Fd()), unix.LOCK_SH|unix.LOCK_NB) != nil {
			turns = 0
		}
		return turns == 5
	})
	if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
		t.Fatal(err)
	}
	for _, record := range d.Records() {
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
