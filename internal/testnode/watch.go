package testnode

import (
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
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

// metric is a sample of the page, and label one of its labels.
var (
	metric = regexp.MustCompile(`^fuse_driver_(\w+)\{driver="pod-info-fuse"((?:,\w+="(?:[^"\\]|\\.)*")*)\} (\S+)$`)
	label  = regexp.MustCompile(`\w+="(?:[^"\\]|\\.)*"`)
)

// Metrics reads the page: samples by their name and labels, a histogram's count and sum as two of
// them. It does not do so as Prometheus does, whose modules a driver's go.sum would name for the
// tests of what it imports: the tests of the package that writes the page do.
func (w *Watched) Metrics() map[string]float64 {
	w.T.Helper()
	status, page := w.Get("/metrics")
	if status != 200 {
		w.T.Fatalf("/metrics: status %d: %s", status, page)
	}
	kinds, samples, last := map[string]string{}, map[string]float64{}, map[string]float64{}
	for line := range strings.Lines(page) {
		if kind, is := strings.CutPrefix(line, "# TYPE fuse_driver_"); is {
			name, kind, _ := strings.Cut(strings.TrimSpace(kind), " ")
			kinds[name] = kind
			if !regexp.MustCompile(`(?m)^# HELP fuse_driver_` + name + ` \S`).MatchString(page) {
				w.T.Errorf("%s has no help", name)
			}
		}
		if strings.HasPrefix(line, "#") {
			continue
		}
		found := metric.FindStringSubmatch(strings.TrimSpace(line))
		if found == nil {
			w.T.Fatalf("/metrics: %q is no sample of the driver", line)
		}
		value, err := strconv.ParseFloat(found[3], 64)
		if err != nil {
			w.T.Fatalf("/metrics: %q: %v", line, err)
		}
		name, part := found[1], ""
		if at := strings.LastIndexByte(name, '_'); kinds[name] == "" && at > 0 && kinds[name[:at]] == "histogram" {
			name, part = name[:at], " "+name[at+1:]
		} else if kinds[name] == "" {
			w.T.Errorf("%s has no type", name)
		}
		labels := slices.DeleteFunc(label.FindAllString(found[2], -1), func(l string) bool { return part == " bucket" && strings.HasPrefix(l, "le=") })
		slices.Sort(labels)
		key := name + "{" + strings.Join(labels, ",") + "}"
		if part == " bucket" {
			last[key] = value
			continue
		}
		if part == " count" && last[key] != value {
			w.T.Errorf("%s: the last class has %v of %v", key, last[key], value)
		}
		samples[key+part] = value
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
