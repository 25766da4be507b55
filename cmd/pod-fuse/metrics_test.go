package main_test

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"golang.org/x/sys/unix"
)

// watched starts an installer with the rights that its container has, until the test ends, and
// returns the address of its metrics.
func (n node) watched() (address string) {
	n.t.Helper()
	return n.watchedBy("setpriv", "--inh-caps=-all", "--bounding-set=-all,+sys_chroot")
}

// watchedBy starts an installer that watches the node, by a command that executes it, and returns
// the address of its metrics.
func (n node) watchedBy(command ...string) (address string) {
	n.t.Helper()
	path := filepath.Join(n.t.TempDir(), "log")
	log, err := os.Create(path)
	must(n.t, err)
	defer log.Close()
	args := append(command[1:], binary, "install", "--watch",
		"--listen", "127.0.0.1:0", "--plugin-dir", filepath.Dir(filepath.Dir(n.path)), "--driver", n.name)
	installer := exec.Command(command[0], args...)
	installer.Stderr = log
	must(n.t, installer.Start())
	n.t.Cleanup(func() {
		_ = installer.Process.Kill()
		_ = installer.Wait()
		if n.t.Failed() {
			n.t.Logf("the installer: %s", read(n.t, path))
		}
	})
	eventually(n.t, "it listens", func() bool {
		_, after, found := strings.Cut(read(n.t, path), " listening on ")
		address, _, _ = strings.Cut(after, "\n")
		return found
	})
	return address
}

// scrape reads what the driver tells of itself beside what all do, as Prometheus reads it.
func (n node) scrape(address string) map[string]float64 {
	n.t.Helper()
	response, err := http.Get("http://" + address + "/metrics")
	must(n.t, err)
	defer response.Body.Close()
	page, err := io.ReadAll(response.Body)
	must(n.t, err)
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(string(page)))
	if err != nil || strings.Contains(string(page), podUID) || strings.Contains(string(page), "web-0") {
		n.t.Fatalf("/metrics: %v\n%s", err, page)
	}
	samples := map[string]float64{}
	for name, family := range families {
		name, ours := strings.CutPrefix(name, "fuse_driver_")
		if !ours || family.GetHelp() == "" {
			n.t.Errorf("%s: %q", name, family.GetHelp())
		}
		for _, m := range family.Metric {
			var labels []string
			if m.Label[0].GetName() != "driver" || m.Label[0].GetValue() != "pod-fuse" {
				n.t.Errorf("%s is of no driver: %v", name, m)
			}
			for _, l := range m.Label[1:] {
				labels = append(labels, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
			}
			samples[name+"{"+strings.Join(labels, ",")+"}"] = m.GetCounter().GetValue() + m.GetGauge().GetValue() // one is nil
		}
	}
	return samples
}

func TestMetricsTellOfProgramsAndTheMounter(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	address := n.watched()
	now := n.scrape(address)
	if up, there := now["mounter_up{}"]; !there || up != 0 {
		t.Errorf("before the first mount: %v", now)
	}
	want := map[string]float64{
		"mounter_up{}": 1, `mounter_info{version="1.2.3"}`: 1, "mounter_spare{}": 1, "mounter_linked{}": 1, "mounter_trouble{}": 0,
		`programs{state="waiting"}`: 1, `programs{state="served"}`: 0, `programs{state="program_dead"}`: 0, `programs{state="gone"}`: 0,
		"waiting_requests{}": 0, "program_returns_total{}": 0,
	}
	seen := map[string]bool{}
	tells := func(what string, outage bool, changed map[string]float64) {
		t.Helper()
		for name, value := range changed {
			want[name] = value
		}
		wrong := func() (all []string) {
			for name, value := range want {
				if got, there := now[name]; !there || got != value {
					all = append(all, fmt.Sprintf("%s is %v, not %v", name, got, value))
				}
			}
			since, there := now["outage_start_timestamp_seconds{}"]
			if age := time.Since(time.Unix(int64(since), 0)); there != outage || there && (age < -time.Second || age > 2*time.Minute) {
				all = append(all, fmt.Sprintf("an outage is told: %v, since %v", there, age))
			}
			slices.Sort(all)
			return all
		}
		defer func() {
			if all := wrong(); t.Failed() && len(all) > 0 {
				t.Errorf("%s: %q", what, all)
			}
		}()
		eventually(t, what, func() bool {
			now = n.scrape(address)
			for sample := range now {
				name, _, _ := strings.Cut(sample, "{")
				seen[name] = true
			}
			return len(wrong()) == 0
		})
	}
	client, server := n.volume(podUID, "data"), n.volume(podUID, "data-server")
	n.must("mount", client, options(podUID, "wait", "1h"))
	n.must("mount", server, options(podUID, "serves", "data"))
	tells("a volume is mounted", false, nil)

	reader := n.inContainer(client, server, "cat", "/mnt/data/text")
	must(t, reader.Start())
	tells("one waits", true, map[string]float64{"waiting_requests{}": 1})
	end := n.serves(client, server, "--restart")
	must(t, reader.Wait())
	served := map[string]float64{
		"waiting_requests{}": 0, `programs{state="waiting"}`: 0, `programs{state="served"}`: 1,
	}
	tells("a program serves", false, served)
	if held := now[`requests_total{kind="held"}`]; held < 1 {
		t.Errorf("%v requests were held", held)
	}
	for _, role := range []string{"active", "standby", "mounter", "spare"} {
		memory, there := now[fmt.Sprintf("process_resident_memory_bytes{role=%q}", role)]
		if !there || memory < 1<<20 || memory > 1<<30 {
			t.Errorf("%s has %v bytes of memory, %v", role, memory, there)
		}
		if seconds, there := now[fmt.Sprintf("process_cpu_seconds_total{role=%q}", role)]; !there || seconds > 600 {
			t.Errorf("%s has used the processor for %v s, %v", role, seconds, there)
		}
		if files, there := now[fmt.Sprintf("process_open_fds{role=%q}", role)]; there && files < 3 {
			t.Errorf("%s has %v descriptors", role, files)
		}
	}
	n.kills(n.status().Programs[0].PID)
	tells("it came back", false, map[string]float64{"program_returns_total{}": 1})
	n.kills(n.status().Mounter.PID)
	tells("the spare mounts", false, nil)
	end()
	tells("it is dead", true, map[string]float64{
		`programs{state="served"}`: 0, `programs{state="program_dead"}`: 1,
	})
	n.must("unmount", client)
	n.must("unmount", server)
	tells("it is unmounted", false, map[string]float64{`programs{state="program_dead"}`: 0})
	if got, want := slices.Sorted(maps.Keys(seen)), tabled(t); !slices.Equal(got, want) {
		t.Errorf("the driver tells\n%q, the tables of docs/installer.md have\n%q", got, want)
	}
}

// tabled are the metrics in the tables of docs/installer.md, by which alerts and the dashboard in
// deploy are checked.
func tabled(t *testing.T) (names []string) {
	t.Helper()
	_, section, found := strings.Cut(read(t, "../../docs/installer.md"), "\n## Metrics\n")
	if !found {
		t.Fatal("docs/installer.md has no tables of metrics")
	}
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z_]+)`").FindAllStringSubmatch(section, -1) {
		names = append(names, row[1])
	}
	slices.Sort(names)
	return names
}

// Nothing is told of programs that the mounter does not tell of.
func TestAMounterThatHangsIsTold(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	address := n.watched()
	n.pod()
	eventually(t, "the mounter has a spare", func() bool { return n.status().Mounter.Spare != 0 })
	for _, pid := range []int{n.status().Mounter.PID, n.status().Mounter.Spare} {
		must(t, unix.Kill(pid, unix.SIGSTOP))
		defer unix.Kill(pid, unix.SIGCONT)
	}
	eventually(t, "status says so", func() bool {
		s := n.status()
		return s.Mounter.Error != "" && len(s.Programs) == 1 && s.Programs[0].State == "unknown"
	})
	now := n.scrape(address)
	if up, there := now["mounter_up{}"]; !there || up != 0 {
		t.Errorf("metrics: %v", now)
	}
	for name := range now {
		if strings.HasPrefix(name, "programs{") || strings.HasPrefix(name, "waiting_requests{") {
			t.Errorf("metrics tell %s", name)
		}
	}
}
