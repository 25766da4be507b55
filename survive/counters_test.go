package survive_test

import (
	"bytes"
	"crypto/rand"
	encoding "encoding/binary"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/internal/testnode"
)

// risen waits until samples have risen by as much at least, since before, and returns them all.
func risen(w *testnode.Watched, what string, before, by map[string]float64) (now map[string]float64) {
	w.T.Helper()
	var missing []string
	defer func() {
		if w.T.Failed() {
			w.T.Logf("%s: these have not risen: %q; all: %v", what, missing, now)
		}
	}()
	testnode.Eventually(w.T, what, func() bool {
		now, missing = w.Metrics(), nil
		for name, rise := range by {
			if got, there := now[name]; !there || got < before[name]+rise {
				missing = append(missing, name)
			}
		}
		return len(missing) == 0
	})
	return now
}

// What the processes that serve count goes on, whichever of them serves, and tells who took over
// from whom, and why.
func TestTheDaemonCountsWhatItDoes(t *testing.T) {
	d := testnode.Place(t)
	w := d.Watch(testnode.Binary, "install")
	w.IsReady()
	dir := d.Mount()
	before := risen(w, "there are counts", nil, map[string]float64{"starts_total{}": 1})
	const reads = 50
	for range reads {
		testnode.Read(t, dir, "pod")
	}
	if _, err := os.Lstat(filepath.Join(dir, "none")); !os.IsNotExist(err) {
		t.Error(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "new"), 0o700); err == nil {
		t.Error("a directory is made")
	}
	before = risen(w, "requests are counted", before, map[string]float64{
		`requests_total{kind="open"}`: reads, `requests_total{kind="read"}`: reads, `requests_total{kind="release"}`: reads,
		`requests_total{kind="lookup"}`: 1, `requests_total{kind="change"}`: 1,
		`request_errors_total{error="ENOENT"}`: 1, `request_errors_total{error="EROFS"}`: 1,
		"answer_duration_seconds{} count": 3 * reads,
	})
	if sum, longest := before["answer_duration_seconds{} sum"], before["longest_answer_seconds{}"]; !(longest > 0 && longest <= sum && sum < 60) {
		t.Errorf("the longest answer took %v s, all %v s", longest, sum)
	}
	if eio := before[`request_errors_total{error="EIO"}`]; eio != 0 {
		t.Errorf("%v answers are EIO", eio)
	}

	active, _ := d.Pair()
	testnode.Kill(t, active)
	before = risen(w, "a death is counted", before, map[string]float64{`takeovers_total{cause="crash"}`: 1})
	active, _ = d.Pair()
	if err := unix.Kill(active, unix.SIGTERM); err != nil {
		t.Fatal(err)
	}
	before = risen(w, "a hand-over is counted", before, map[string]float64{`takeovers_total{cause="planned"}`: 1})
	active, _ = d.Pair()
	if err := unix.Kill(active, unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	before = risen(w, "one that hangs is counted", before, map[string]float64{`takeovers_total{cause="hang"}`: 1})
	d.Pair()
	w.Ends()
	upgraded := d.Watch(testnode.Newer, "install") // calls init
	before = risen(upgraded, "an upgrade is counted", before, map[string]float64{`takeovers_total{cause="upgrade"}`: 1})
	testnode.Read(t, dir, "pod")
	before = risen(upgraded, "the counts go on", before, map[string]float64{`requests_total{kind="read"}`: 1})
	for cause, want := range map[string]float64{"crash": 1, "hang": 1, "planned": 1, "upgrade": 1} {
		if got := before[`takeovers_total{cause="`+cause+`"}`]; got != want {
			t.Errorf("%v take-overs by %s", got, cause)
		}
	}

	upgraded.Ends() // it would heal
	active, standby := d.Pair()
	if err := unix.Kill(standby, unix.SIGSTOP); err != nil { // so that it does not start another one
		t.Fatal(err)
	}
	testnode.Kill(t, active)
	testnode.Kill(t, standby)
	d.Must("init")
	risen(d.Watch(testnode.Newer, "install"), "a start where both have died is counted", before, map[string]float64{"starts_total{}": 1})
}

// Nobody else can open it, and it goes with the daemon.
func TestTheCountersAreRoots(t *testing.T) {
	d := testnode.Install(t)
	d.Mount()
	var stat unix.Stat_t
	if err := unix.Lstat(d.RunDir+"/counters", &stat); err != nil || stat.Uid != 0 || stat.Mode != unix.S_IFREG|0o600 || stat.Size != 2360 {
		t.Errorf("%+v, %v", stat, err)
	}
	d.Must("unmount", d.Status().Volumes[0].Dir)
	if output, err := d.Command("stop").CombinedOutput(); err != nil {
		t.Fatalf("stop: %v: %s", err, output)
	}
	if _, err := os.Lstat(d.RunDir + "/counters"); !os.IsNotExist(err) {
		t.Errorf("after stop: %v", err)
	}
}

// A daemon that was taken over writes what it likes. Whoever asks gets a valid page, and what else
// is on it is as it was.
func TestHostileCounters(t *testing.T) {
	d := testnode.Place(t)
	w := d.Watch(testnode.Binary, "install")
	w.IsReady()
	d.Mount()
	risen(w, "there are counts", nil, map[string]float64{"starts_total{}": 1})
	path := d.RunDir + "/counters"
	good := []byte(testnode.Read(t, path))
	random := make([]byte, len(good))
	if _, err := rand.Read(random); err != nil {
		t.Fatal(err)
	}
	ones := bytes.Repeat([]byte{0xff}, len(good))
	other := slices.Clone(good)
	other[0]++
	for _, row := range []struct {
		name    string
		content []byte
		told    bool
	}{
		{"random bytes", slices.Concat(good[:8], random[8:]), true},
		{"all ones", slices.Concat(good[:8], ones[8:]), true},
		{"random bytes, of no layout", slices.Concat(ones[:8], random[8:]), false},
		{"nothing but ones", ones, false},
		{"another version's", other, false},
		{"nothing", nil, false},
		{"half of it", good[:len(good)/2], false},
		{"more of it", append(slices.Clone(good), good...), false},
		{"as it was", good, true},
	} {
		// In another file: the daemon goes on, and would end if its own became shorter.
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, row.content, 0o600); err != nil {
			t.Fatal(err)
		}
		now := w.Metrics() // which is valid
		if _, told := now["starts_total{}"]; told != row.told {
			t.Errorf("%s: counts are told: %v", row.name, told)
		}
		if now[`mount{state="ok"}`] != 1 || now[`volumes{state="ok"}`] != 1 {
			t.Errorf("%s: the rest is missing: %v", row.name, now)
		}
		for name, value := range now {
			if !(value >= 0) {
				t.Errorf("%s: %s is %v", row.name, name, value)
			}
		}
		if row.told && len(row.content) >= 16 {
			if want := float64(encoding.NativeEndian.Uint64(row.content[8:])); now["starts_total{}"] != want {
				t.Errorf("%s: starts_total is %v, want %v", row.name, now["starts_total{}"], want)
			}
		}
	}
	for name, make := range map[string]func() error{
		"a pipe": func() error { return unix.Mkfifo(path, 0o600) },
		"a link": func() error { return os.Symlink("/proc/kmsg", path) },
	} {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		if err := make(); err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		if now := w.Metrics(); now[`mount{state="ok"}`] != 1 || time.Since(begun) > testnode.Forever/2 {
			t.Errorf("%s: after %v: %v", name, time.Since(begun), now)
		}
	}
}

// The metrics in the table of docs/installer.md are those that the driver tells, and no others. The
// alerts and the dashboard in deploy are checked against that table.
func TestTheTableHasAllMetrics(t *testing.T) {
	content := testnode.Read(t, "../docs/installer.md")
	_, section, _ := strings.Cut(content, "\n## Metrics\n")
	section, _, found := strings.Cut(section, "\nThose of pod-fuse alone:\n")
	if !found {
		t.Fatal("docs/installer.md has no tables of metrics")
	}
	var want, got []string
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z_]+)`").FindAllStringSubmatch(section, -1) {
		want = append(want, row[1])
	}
	d := testnode.Place(t)
	w := d.Watch(testnode.Binary, "install")
	w.IsReady()
	d.Mount()
	d.Pair()
	for name := range risen(w, "there are counts", nil, map[string]float64{"starts_total{}": 1, `callouts_total{callout="mount",outcome="success"}`: 1}) {
		name, _, _ = strings.Cut(name, "{")
		got = append(got, name)
	}
	slices.Sort(want)
	slices.Sort(got)
	if got = slices.Compact(got); !slices.Equal(got, want) {
		t.Errorf("the driver tells\n%q, the table has\n%q", got, want)
	}
}
