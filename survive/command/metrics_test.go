package command_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/internal/testnode"
)

func TestMetricsBeforeTheFirstMount(t *testing.T) {
	d := testnode.Place(t)
	w := d.Watch(testnode.Binary, "install")
	w.IsReady()
	w.Counts(map[string]float64{
		fmt.Sprintf(`installer_info{name=%q,version="1.2.3"}`, d.Name): 1,
		"repairs_total{}": 0, "status_error{}": 0, "upgrade_failed{}": 0,
		`mount{state="ok"}`: 0, `mount{state="dead"}`: 0, `mount{state="absent"}`: 1,
		`volumes{state="ok"}`: 0, `volumes{state="dead"}`: 0, `volumes{state="not_mounted"}`: 0,
		`volumes{state="foreign"}`: 0, `volumes{state="unknown"}`: 0, `volumes{state="unrecorded"}`: 0,
		`volumes{state="lingering"}`: 0,
	})
	if now := w.Metrics(); len(now) != 14 {
		t.Errorf("there is more: %v", now)
	}
}

func TestMetricsCountWhatHappened(t *testing.T) {
	d := testnode.Place(t)
	w := d.Watch(testnode.Binary, "install")
	w.IsReady()
	var volumes []string
	for range 4 {
		volumes = append(volumes, d.Mount())
	}
	for range 2 {
		d.Call("mount", filepath.Join(t.TempDir(), "none"), `{"kubernetes.io/pod.uid":"no"}`)
	}
	d.Must("unmount", volumes[0])
	d.Must("init")
	d.Call("expandfs")
	want := map[string]float64{
		`callouts_total{callout="init",outcome="success"}`:        1,
		`callouts_total{callout="mount",outcome="success"}`:       4,
		`callouts_total{callout="mount",outcome="failure"}`:       2,
		`callouts_total{callout="unmount",outcome="success"}`:     1,
		`callouts_total{callout="unmount",outcome="failure"}`:     0,
		`callouts_total{callout="other",outcome="not_supported"}`: 1,
		`callout_duration_seconds{callout="init"} count`:          1,
		`callout_duration_seconds{callout="mount"} count`:         6,
		`callout_duration_seconds{callout="unmount"} count`:       1,
		`callout_duration_seconds{callout="other"} count`:         1,
		`mount{state="ok"}`:                            1,
		`volumes{state="ok"}`:                          3,
		`takeovers_total{cause="crash"}`:               0,
		`takeovers_total{cause="upgrade"}`:             0,
		`starts_total{}`:                               1,
		`upgrade_failed{}`:                             0,
		`process_info{role="active",version="1.2.3"}`:  1,
		`process_info{role="standby",version="1.2.3"}`: 1,
	}
	w.Counts(want)
	if sum := w.Metrics()[`callout_duration_seconds{callout="mount"} sum`]; sum <= 0 || sum > 60 {
		t.Errorf("six mounts took %v s", sum)
	}

	// One is unmounted, and on another one something is mounted, by somebody else.
	if err := unix.Unmount(volumes[1], 0); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("foreign", volumes[2], "tmpfs", 0, ""); err != nil {
		t.Fatal(err)
	}
	defer unix.Unmount(volumes[2], 0)
	testnode.Write(t, d.RunDir+"/volumes/123456789abcde.json", "{")
	for state, count := range map[string]float64{"ok": 1, "not_mounted": 1, "foreign": 1, "unknown": 1, "dead": 0} {
		want[fmt.Sprintf(`volumes{state=%q}`, state)] = count
	}
	w.Counts(want)
	if err := os.Remove(d.RunDir + "/volumes/123456789abcde.json"); err != nil {
		t.Fatal(err)
	}
	want[`volumes{state="unknown"}`] = 0

	active, _ := d.Pair()
	testnode.Kill(t, active)
	d.Pair()
	want[`takeovers_total{cause="crash"}`] = 1
	w.Counts(want)
	w.Ends()

	upgraded := d.Watch(testnode.Newer, "install") // calls init
	want[`takeovers_total{cause="upgrade"}`] = 1
	want[`callouts_total{callout="init",outcome="success"}`] = 2
	want[`callout_duration_seconds{callout="init"} count`] = 2
	for _, role := range []string{"active", "standby"} {
		delete(want, fmt.Sprintf(`process_info{role=%q,version="1.2.3"}`, role))
		want[fmt.Sprintf(`process_info{role=%q,version="1.2.4"}`, role)] = 1
	}
	want[fmt.Sprintf(`installer_info{name=%q,version="1.2.4"}`, d.Name)] = 1
	upgraded.Counts(want)
}

func TestMetricsOfConfinementAreThoseOfStatus(t *testing.T) {
	d := testnode.Place(t)
	w := d.Watch(testnode.Binary, "install")
	w.IsReady()
	d.Mount()
	d.Pair()
	now := d.Status().Daemon.Confinement
	want := map[string]float64{}
	for role, c := range map[string]*testnode.Confinement{"active": now.Active, "standby": now.Standby} {
		for measure, inForce := range map[string]bool{
			"user": c.UID == d.User().Uid, "no_capabilities": true, "no_new_privs": c.NoNewPrivs,
			"not_dumpable": !c.Dumpable, "seccomp": c.Seccomp, "landlock": c.Landlock, "unreadable_binary": !c.ReadableBinary,
		} {
			want[fmt.Sprintf(`confinement{measure=%q,role=%q}`, measure, role)] = map[bool]float64{true: 1}[inForce]
		}
	}
	w.Counts(want)
}
