package install_test

import (
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"example.com/pod-info-fuse/internal/testnode"
)

// kills is how often an installer is killed in a test.
const kills = 30

func TestAnInstallThatIsKilledLeavesAllOrNothing(t *testing.T) {
	d := testnode.Place(t)
	duration := installTime(d, func() { d.Removed() })
	ours := testnode.ContentsOf(t, testnode.Binary)
	atRandom(t, duration, func(after time.Duration) bool {
		d.Removed()
		look := d.WatchPlace(ours, true)
		interrupted := killInstaller(d, after, testnode.Binary, "install")
		look()
		d.IsRepaired(testnode.Binary)
		return interrupted
	})
}

func TestAnUpgradeThatIsKilledLeavesOneOrTheOther(t *testing.T) {
	d := testnode.Place(t)
	versions := []string{testnode.Binary, testnode.Newer}
	next := 0
	duration := installTime(d, func() { next = 1 - next; d.Installs(versions[next]) })
	atRandom(t, duration, func(after time.Duration) bool {
		next = 1 - next
		look := d.WatchPlace(testnode.ContentsOf(t, versions...), false)
		interrupted := killInstaller(d, after, versions[next], "install")
		look()
		d.IsRepaired(versions[next])
		return interrupted
	})
}

// What it leaves, the next one removes, or the next installer makes whole.
func TestAnUninstallThatIsKilledCanBeRepeatedOrUndone(t *testing.T) {
	d := testnode.Place(t)
	config := filepath.Join(t.TempDir(), "config")
	testnode.Write(t, config, `{"log":"off"}`)
	prepare := func() { d.Installs(testnode.Newer); d.Installs(testnode.Binary, "--config", config); d.Must("init") }
	prepare()
	duration := timeOf(d, prepare, func() {
		if output, err := d.Installer(testnode.Binary, "uninstall").CombinedOutput(); err != nil {
			t.Fatalf("uninstall: %v: %s", err, output)
		}
	})
	undo := false
	atRandom(t, duration, func(after time.Duration) bool {
		prepare()
		interrupted := killInstaller(d, after, testnode.Binary, "uninstall")
		if undo = !undo; undo {
			d.IsRepaired(testnode.Binary)
			return interrupted
		}
		if output, err := d.Installer(testnode.Binary, "uninstall").CombinedOutput(); err != nil {
			t.Errorf("uninstall again: %v: %s", err, output)
		}
		isGone(d)
		return interrupted
	})
}

// installTime is how long it usually takes to install the driver, after a
// preparation.
func installTime(d testnode.Driver, prepare func()) time.Duration {
	return timeOf(d, prepare, func() { d.Installs(testnode.Binary) })
}

// timeOf is how long something usually takes, after a preparation.
func timeOf(d testnode.Driver, prepare, do func()) time.Duration {
	d.T.Helper()
	var times []time.Duration
	for range 5 {
		prepare()
		started := time.Now()
		do()
		times = append(times, time.Since(started))
	}
	slices.Sort(times)
	return times[len(times)/2]
}

// atRandom tries moments up to a duration until there were enough that were in
// time, before the installer had ended. The machine may be faster or slower now than
// when the duration was measured: a third is to be too late.
func atRandom(t *testing.T, duration time.Duration, try func(time.Duration) bool) {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	random := rand.New(rand.NewPCG(seed, 0))
	tries, killed := 0, 0
	for ; killed < kills && tries < 20*kills; tries++ {
		if try(time.Duration(random.Int64N(int64(duration)))) {
			killed++
			duration += duration / 16
		} else {
			duration -= duration / 8
		}
	}
	t.Logf("seed %d: %d of %d, of %v in the end, were interrupted", seed, killed, tries, duration)
	if killed < kills {
		t.Errorf("only %d of %d were killed before they ended", killed, tries)
	}
}

// killInstaller kills a command of the installer some time after its start, and says
// whether it was still at work.
func killInstaller(d testnode.Driver, after time.Duration, version, command string) bool {
	d.T.Helper()
	installer := d.Installer(version, command)
	if err := installer.Start(); err != nil {
		d.T.Fatal(err)
	}
	time.Sleep(after)
	_ = installer.Process.Kill()
	return installer.Wait() != nil
}

func TestTwoInstallersAtTheSameTime(t *testing.T) {
	d := testnode.Place(t)
	for range 5 {
		d.Removed()
		look := d.WatchPlace(testnode.ContentsOf(t, testnode.Binary, testnode.Newer), true)
		one, two := d.Installer(testnode.Binary, "install"), d.Installer(testnode.Newer, "install")
		if err := one.Start(); err != nil {
			t.Fatal(err)
		}
		output, err := two.CombinedOutput()
		if errOne := one.Wait(); errOne != nil || err != nil {
			t.Errorf("one: %v; two: %v: %s", errOne, err, output)
		}
		look()
		d.IsWhole(map[string]string{"1.2.3": testnode.Binary, "1.2.4": testnode.Newer}[versionOf(d)])
	}
}
