//go:build cluster

package cluster

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"example.com/pod-info-fuse/e2e/internal/harness"
)

// The plugin is killed, deleted, upgraded, and taken away with its DaemonSet and put back, and
// nobody who reads notices: docs/csi.md has these as commands. Nothing stays open, neither in the
// plugin nor in the processes that serve.
func testRestarts(t *testing.T) {
	watchers := runWatchers(t)
	was, err := installed.Pair()
	if err != nil {
		t.Fatal(err)
	}
	opened, err := openDescriptors()
	if err != nil {
		t.Fatal(err)
	}
	began, rounds := time.Now(), 0
	for _, version := range []string{versionOf(t, nextBinary), versionOf(t, "../../bin/pod-info-fuse")} {
		for _, round := range []struct {
			name string
			do   func(*testing.T)
		}{
			{"kill -9", killPlugin},
			{"delete the pod", deletePlugin},
			{"upgrade", func(t *testing.T) {
				kubectl(t, "-n", namespace, "set", "image", daemonSet, "*="+productImage+":"+version)
			}},
			{"remove the DaemonSet and put it back", removeAndPutBack},
		} {
			round.do(t)
			rolledOut(t)
			for _, w := range watchers {
				if err := w.goesOn(); err != nil {
					t.Fatalf("round %d, %s: %s: %v", rounds+1, round.name, w.name, err)
				}
			}
			rounds++
		}
	}
	for _, w := range watchers {
		reads, longest, err := w.read()
		if err != nil {
			t.Errorf("%s: %v", w.name, err)
		}
		t.Logf("%s read %d times without an error, and waited %v at most", w.name, reads, longest)
	}
	err = harness.Eventually(startLimit, func() error {
		now, err := openDescriptors()
		if err == nil && now != opened {
			err = fmt.Errorf("%d rounds later, there are %+v, and were %+v", rounds, now, opened)
		}
		return err
	})
	if err != nil {
		t.Errorf("open descriptors: %v", err)
	}
	t.Logf("open descriptors before and after: %+v", opened)
	now, err := installed.Pair()
	t.Logf("%d rounds in %v; the pair was %+v, and is %+v (%v)", rounds, time.Since(began).Round(time.Second), was, now, err)
}

// descriptors are how many a process has open.
type descriptors struct{ plugin, active, standby int }

// openDescriptors counts those of the plugin and of the processes that serve.
func openDescriptors() (d descriptors, err error) {
	id, err := testCluster.kubectl("-n", namespace, "get", "pods", "-l", pluginPod, "-o",
		`jsonpath={.items[*].status.containerStatuses[?(@.name=="csi")].containerID}`)
	if err != nil {
		return d, err
	}
	plugin, err := processOf(id)
	if err != nil {
		return d, err
	}
	pair, err := installed.Pair()
	if err != nil {
		return d, err
	}
	for pid, count := range map[string]*int{plugin: &d.plugin, strconv.Itoa(pair.Active): &d.active, strconv.Itoa(pair.Standby): &d.standby} {
		open, err := os.ReadDir("/proc/" + pid + "/fd")
		if err != nil {
			return d, err
		}
		*count = len(open)
	}
	return d, nil
}

// pluginPod is the label of the plugin's pod.
const pluginPod = "app.kubernetes.io/name=pod-info-fuse"

// killPlugin kills all processes of the plugin's pod, and waits until others are there.
func killPlugin(t *testing.T) {
	t.Helper()
	containers := func() ([]string, error) {
		ids, err := testCluster.kubectl("-n", namespace, "get", "pods", "-l", pluginPod, "-o",
			"jsonpath={.items[*].status.containerStatuses[?(@.state.running)].containerID}")
		return strings.Fields(ids), err
	}
	before, err := containers()
	if err != nil || len(before) != 2 {
		t.Fatalf("the plugin's pod has the containers %v, %v, want two", before, err)
	}
	for _, container := range before {
		pid, err := processOf(container)
		if err != nil {
			t.Fatal(err)
		}
		number, _ := strconv.Atoi(pid)
		if err := syscall.Kill(number, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	err = harness.Eventually(startLimit, func() error {
		now, err := containers()
		if err == nil && (len(now) != 2 || slices.ContainsFunc(now, func(id string) bool { return slices.Contains(before, id) })) {
			err = fmt.Errorf("the containers %v were killed, and %v run", before, now)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func deletePlugin(t *testing.T) {
	t.Helper()
	kubectl(t, "-n", namespace, "delete", "pod", "-l", pluginPod, "--timeout=4m")
}

// removeDaemonSet removes the DaemonSet, and waits until its pod has ended.
func removeDaemonSet(t *testing.T) {
	t.Helper()
	kubectl(t, "-n", namespace, "delete", daemonSet, "--cascade=foreground", "--timeout=4m")
}

// A watcher is a pod that has opened a file of its volume once and reads it again and again, and
// ends with the first error.
type watcher struct {
	pod
	pid    string
	mount  string // its line of the container's mountinfo: with another mount, it is another
	opened string // the descriptor, as the kernel shows it
}

// runWatchers runs the example for each door, of which one is where Pod Security is strict, that of
// the claim, and two more as root, one of them by the same claim.
func runWatchers(t *testing.T) (watchers []watcher) {
	t.Helper()
	asRoot := func(name string, source object) object {
		root := newPod(name, source, "pod-info-fuse", "watch", "--keep-open", "--exit-on-error", "--interval=20ms", infoDir+"/pod")
		root["spec"].(object)["restartPolicy"] = "Never"
		return root
	}
	for _, p := range runPods(t,
		in("restricted", objectsIn(t, "watch-csi.yaml")[0]),
		in("default", objectsIn(t, "watch-flexvolume.yaml")[0]),
		objectsIn(t, claimExample)[2],
		asRoot("watch-root", csiVolume()),
		asRoot("watch-claim-root", claimVolume(exampleClaim)),
	) {
		w := watcher{pod: p, pid: p.hostPID(t)}
		err := harness.Eventually(startLimit, func() (err error) {
			w.mount, w.opened, err = w.look()
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		watchers = append(watchers, w)
	}
	return watchers
}

// look finds the mount of the volume in the container, and the file that is open.
func (w watcher) look() (mount, opened string, err error) {
	table, err := os.ReadFile("/proc/" + w.pid + "/mountinfo")
	if err != nil {
		return "", "", err
	}
	for line := range strings.Lines(string(table)) {
		if strings.Fields(line)[4] == infoDir {
			mount += line
		}
	}
	descriptors, err := os.ReadDir("/proc/" + w.pid + "/fd")
	if err != nil {
		return "", "", err
	}
	for _, fd := range descriptors {
		if path, _ := os.Readlink("/proc/" + w.pid + "/fd/" + fd.Name()); strings.HasPrefix(path, infoDir) {
			info, err := os.ReadFile("/proc/" + w.pid + "/fdinfo/" + fd.Name()) // position, flags, mount, inode
			if err != nil {
				return "", "", err
			}
			opened += fd.Name() + " " + path + "\n" + string(info)
		}
	}
	if mount == "" || opened == "" {
		err = fmt.Errorf("in the pod %s, on %s is mounted %q, and open is %q", w.name, infoDir, mount, opened)
	}
	return mount, opened, err
}

// goesOn waits until the watcher has read once more, by the same descriptor on the same mount.
func (w watcher) goesOn() error {
	since := time.Now()
	var last string
	err := harness.Eventually(startLimit, func() (err error) {
		if last, err = w.kubectl("logs", w.name, "--tail=1"); err != nil || !strings.Contains(last, w.want()) {
			return err
		}
		if at, err := readAt(last); err != nil || at.Before(since) {
			return fmt.Errorf("since %v it has not read; the last was %q (%v)", since.UTC(), last, err)
		}
		return nil
	})
	if err == nil && !strings.Contains(last, w.want()) {
		err = fmt.Errorf("it read %q, want %q", last, w.want())
	}
	if err != nil {
		return err
	}
	mount, opened, err := w.look()
	if err == nil && (mount != w.mount || opened != w.opened) {
		err = fmt.Errorf("mounted was %q, and is %q; open was %q, and is %q", w.mount, mount, w.opened, opened)
	}
	return err
}

// want is what each line of the watcher has: the only answer that is right for its process.
func (w watcher) want() string { return fmt.Sprintf(`Z "%s\n" in `, w.pid) }

// readAt is when a line's read began.
func readAt(line string) (time.Time, error) {
	at, _, _ := strings.Cut(line, " ")
	return time.Parse(time.RFC3339, at)
}

// read checks every read since the watcher began, and says how many there were and how long the
// longest took.
func (w watcher) read() (reads int, longest time.Duration, err error) {
	log, err := w.kubectl("logs", w.name)
	if err != nil {
		return 0, 0, err
	}
	for line := range strings.Lines(log) {
		_, took, found := strings.Cut(strings.TrimSpace(line), w.want())
		waited, err := time.ParseDuration(took)
		if !found || err != nil {
			return reads, longest, fmt.Errorf("read %d was %q, want %q", reads+1, line, w.want())
		}
		reads, longest = reads+1, max(longest, waited)
	}
	return reads, longest, nil
}
