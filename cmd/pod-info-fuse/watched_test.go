package main_test

import (
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"example.com/pod-info-fuse/e2e/stopwatch"
)

// interval is that of the watches here.
const interval = 100 * time.Millisecond

// watched is a process that watches over the driver's place.
type watched struct {
	t       *testing.T
	process *exec.Cmd
	log     string // the file that it logs to
	address string
}

// watch starts a command of the installer that watches, until the test ends.
func (d installed) watch(version, command string, args ...string) *watched {
	d.t.Helper()
	args = append([]string{"--watch", "--interval", interval.String(), "--listen", "127.0.0.1:0"}, args...)
	w := &watched{t: d.t, process: d.installer(version, command, args...), log: filepath.Join(d.t.TempDir(), "log")}
	log, err := os.Create(w.log)
	if err != nil {
		d.t.Fatal(err)
	}
	defer log.Close()
	w.process.Stderr = log
	if err := w.process.Start(); err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() {
		if w.process.ProcessState == nil {
			w.ends()
		}
		if d.t.Failed() {
			d.t.Logf("the log of %q:\n%s", w.process.Args, read(d.t, w.log))
		}
	})
	eventually(d.t, "it listens", func() bool {
		_, after, found := strings.Cut(read(d.t, w.log), " listening on ")
		w.address, _, _ = strings.Cut(after, "\n")
		return found
	})
	return w
}

// ends ends the process, whatever it does at the moment, and checks how it ends. A kubelet
// would kill it after thirty seconds.
func (w *watched) ends() {
	w.t.Helper()
	if err := w.process.Process.Signal(syscall.SIGTERM); err != nil {
		w.t.Error(err)
	}
	const patience = 20 * time.Second
	hangs := time.AfterFunc(patience, func() {
		w.t.Errorf("after SIGTERM, it has not ended after %v", patience)
		_ = w.process.Process.Kill()
	})
	defer hangs.Stop()
	if err := w.process.Wait(); err != nil {
		w.t.Errorf("after SIGTERM, it ended with %v", err)
	}
}

// get asks for a page.
func (w *watched) get(page string) (status int, body string) {
	w.t.Helper()
	response, err := http.Get("http://" + w.address + page)
	if err != nil {
		w.t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return response.StatusCode, string(text)
}

// isReady waits until the page readyz says so.
func (w *watched) isReady() {
	w.t.Helper()
	eventually(w.t, "it is ready", func() bool { status, _ := w.get("/readyz"); return status == 200 })
}

// isNotReady waits until the page readyz says why it is not.
func (w *watched) isNotReady(why string) {
	w.t.Helper()
	eventually(w.t, "it is not ready because "+why, func() bool {
		status, text := w.get("/readyz")
		return status == 503 && strings.Contains(text, why)
	})
}

// logs waits until there is a text in the log.
func (w *watched) logs(text string) {
	w.t.Helper()
	eventually(w.t, "it logs "+text, func() bool { return strings.Contains(read(w.t, w.log), text) })
}

// A kubelet makes an event, a warning, of each answer that the driver is not ready. So the first answer
// waits for the first look, which installs the driver.
func TestAnInstallationBeginsWithoutAWarning(t *testing.T) {
	d := place(t)
	w := d.watch(binary, "install")
	if status, text := w.get("/readyz"); status != 200 {
		t.Errorf("the first answer is %d: %s", status, text)
	}
	d.isWhole(binary)
	// It does not wait for ever.
	never := place(t)
	lock, err := os.Open(never.pluginDir())
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	w = never.watch(binary, "install")
	watch := stopwatch.Start()
	status, text := w.get("/readyz")
	if took, late := watch.Stop(); status != 503 || took-late > 5*time.Second {
		t.Errorf("while another installer is at work, the answer is %d: %s, after %v", status, text, took)
	}
	if status, text := w.get("/healthz"); status != 200 {
		t.Errorf("healthz: %d: %s", status, text)
	}
}

// The kubelet restarts a container whose port does not answer in time.
func TestSilentConnectionsDoNotKeepTheKubeletAway(t *testing.T) {
	w := place(t).watch(binary, "install")
	w.isReady()
	for range 100 {
		conn, err := net.Dial("tcp", w.address)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
	watch := stopwatch.Start()
	status, text := w.get("/healthz")
	if took, late := watch.Stop(); status != 200 || took > time.Second {
		t.Errorf("after %v, and %v in which the machine was late: %d %s", took, late, status, text)
	}
}
