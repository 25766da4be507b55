package testnode

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// configMap is a directory whose files change as a kubelet does it: all at once,
// by a link that becomes another one.
type configMap struct {
	t    *testing.T
	Dir  string
	name string // of its one file
	now  string
}

func NewConfigMap(t *testing.T, name, content string) *configMap {
	c := &configMap{t: t, Dir: t.TempDir(), name: name}
	if err := os.Symlink("..data/"+name, c.File()); err != nil {
		t.Fatal(err)
	}
	c.Becomes(content)
	return c
}

func (c *configMap) File() string { return filepath.Join(c.Dir, c.name) }

func (c *configMap) Becomes(content string) {
	c.t.Helper()
	next, err := os.MkdirTemp(c.Dir, "..version-")
	if err != nil {
		c.t.Fatal(err)
	}
	Write(c.t, filepath.Join(next, c.name), content)
	link := filepath.Join(c.Dir, "..data_tmp")
	if err := errors.Join(os.Symlink(filepath.Base(next), link), os.Rename(link, filepath.Join(c.Dir, "..data"))); err != nil {
		c.t.Fatal(err)
	}
	if c.now != "" {
		if err := os.RemoveAll(c.now); err != nil {
			c.t.Fatal(err)
		}
	}
	c.now = next
}

// Metrics reads the page as Prometheus does: samples by their name and labels, a
// histogram's count and sum as two of them.
func (w *Watched) Metrics() map[string]float64 {
	w.T.Helper()
	status, page := w.Get("/metrics")
	if status != 200 {
		w.T.Fatalf("/metrics: status %d: %s", status, page)
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(page))
	if err != nil {
		w.T.Fatalf("/metrics: %v\n%s", err, page)
	}
	samples := map[string]float64{}
	for name, family := range families {
		if !strings.HasPrefix(name, "fuse_driver_") || family.GetHelp() == "" {
			w.T.Errorf("%s: %q", name, family.GetHelp())
		}
		for _, m := range family.Metric {
			var labels []string
			if m.Label[0].GetName() != "driver" || m.Label[0].GetValue() != "pod-info-fuse" {
				w.T.Errorf("%s is of no driver: %v", name, m)
			}
			for _, l := range m.Label[1:] {
				labels = append(labels, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
			}
			slices.Sort(labels)
			key := strings.TrimPrefix(name, "fuse_driver_") + "{" + strings.Join(labels, ",") + "}"
			if h := m.Histogram; h != nil {
				samples[key+" count"], samples[key+" sum"] = float64(h.GetSampleCount()), h.GetSampleSum()
				last := h.Bucket[len(h.Bucket)-1]
				if last.GetCumulativeCount() != h.GetSampleCount() {
					w.T.Errorf("%s: the last class has %d of %d", key, last.GetCumulativeCount(), h.GetSampleCount())
				}
				continue
			}
			samples[key] = m.GetCounter().GetValue() + m.GetGauge().GetValue() // one is nil
		}
	}
	return samples
}

// Counts waits until samples have values.
func (w *Watched) Counts(want map[string]float64) {
	w.T.Helper()
	var now map[string]float64
	defer func() {
		for name, value := range want {
			if got, there := now[name]; got != value || !there {
				w.T.Errorf("%s is %v (there: %v), want %v", name, got, there, value)
			}
		}
	}()
	Eventually(w.T, "the metrics are right", func() bool {
		now = w.Metrics()
		for name, value := range want {
			if got, there := now[name]; got != value || !there {
				return false
			}
		}
		return true
	})
}

// Interval is that of the watches here.
const Interval = 100 * time.Millisecond

// Watched is a process that watches over the driver's place.
type Watched struct {
	T       *testing.T
	Process *exec.Cmd
	Log     string // the file that it logs to
	Address string
}

// Watch starts a command of the installer that watches, until the test ends.
func (d Driver) Watch(version, command string, args ...string) *Watched {
	d.T.Helper()
	args = append([]string{"--watch", "--interval", Interval.String(), "--listen", "127.0.0.1:0"}, args...)
	w := &Watched{T: d.T, Process: d.Installer(version, command, args...), Log: filepath.Join(d.T.TempDir(), "log")}
	log, err := os.Create(w.Log)
	if err != nil {
		d.T.Fatal(err)
	}
	defer log.Close()
	w.Process.Stderr = log
	if err := w.Process.Start(); err != nil {
		d.T.Fatal(err)
	}
	d.T.Cleanup(func() {
		if w.Process.ProcessState == nil {
			w.Ends()
		}
		if d.T.Failed() {
			d.T.Logf("the log of %q:\n%s", w.Process.Args, Read(d.T, w.Log))
		}
	})
	Eventually(d.T, "it listens", func() bool {
		_, after, found := strings.Cut(Read(d.T, w.Log), " listening on ")
		w.Address, _, _ = strings.Cut(after, "\n")
		return found
	})
	return w
}

// Ends ends the process, whatever it does at the moment, and checks how it ends. A kubelet
// would kill it after thirty seconds.
func (w *Watched) Ends() {
	w.T.Helper()
	if err := w.Process.Process.Signal(syscall.SIGTERM); err != nil {
		w.T.Error(err)
	}
	const patience = 20 * time.Second
	hangs := time.AfterFunc(patience, func() {
		w.T.Errorf("after SIGTERM, it has not ended after %v", patience)
		_ = w.Process.Process.Kill()
	})
	defer hangs.Stop()
	if err := w.Process.Wait(); err != nil {
		w.T.Errorf("after SIGTERM, it ended with %v", err)
	}
}

// Get asks for a page.
func (w *Watched) Get(page string) (status int, body string) {
	w.T.Helper()
	response, err := http.Get("http://" + w.Address + page)
	if err != nil {
		w.T.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		w.T.Fatal(err)
	}
	return response.StatusCode, string(text)
}

// IsReady waits until the page readyz says so.
func (w *Watched) IsReady() {
	w.T.Helper()
	Eventually(w.T, "it is ready", func() bool { status, _ := w.Get("/readyz"); return status == 200 })
}

// IsNotReady waits until the page readyz says why it is not.
func (w *Watched) IsNotReady(why string) {
	w.T.Helper()
	Eventually(w.T, "it is not ready because "+why, func() bool {
		status, text := w.Get("/readyz")
		return status == 503 && strings.Contains(text, why)
	})
}

// Logs waits until there is a text in the log.
func (w *Watched) Logs(text string) {
	w.T.Helper()
	Eventually(w.T, "it logs "+text, func() bool { return strings.Contains(Read(w.T, w.Log), text) })
}
