package command_test

import (
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"example.com/pod-info-fuse/e2e/stopwatch"
	"example.com/pod-info-fuse/internal/testnode"
)

// A kubelet makes an event, a warning, of each answer that the driver is not ready. So the first
// answer waits for the first look, which installs the driver.
func TestAnInstallationBeginsWithoutAWarning(t *testing.T) {
	d := testnode.Place(t)
	w := d.Watch(testnode.Binary, "install")
	if status, text := w.Get("/readyz"); status != 200 {
		t.Errorf("the first answer is %d: %s", status, text)
	}
	d.IsWhole(testnode.Binary)
	// It does not wait for ever.
	never := testnode.Place(t)
	lock, err := os.Open(never.PluginDir())
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	w = never.Watch(testnode.Binary, "install")
	watch := stopwatch.Start()
	status, text := w.Get("/readyz")
	if took, late := watch.Stop(); status != 503 || took-late > 5*time.Second {
		t.Errorf("while another installer is at work, the answer is %d: %s, after %v", status, text, took)
	}
	if status, text := w.Get("/healthz"); status != 200 {
		t.Errorf("healthz: %d: %s", status, text)
	}
}

// The kubelet restarts a container whose port does not answer in time.
func TestSilentConnectionsDoNotKeepTheKubeletAway(t *testing.T) {
	w := testnode.Place(t).Watch(testnode.Binary, "install")
	w.IsReady()
	for range 100 {
		conn, err := net.Dial("tcp", w.Address)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
	watch := stopwatch.Start()
	status, text := w.Get("/healthz")
	if took, late := watch.Stop(); status != 200 || took > time.Second {
		t.Errorf("after %v, and %v in which the machine was late: %d %s", took, late, status, text)
	}
}
