package main_test

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// kills is how often an installer is killed in a test.
const kills = 30

func TestAnInstallThatIsKilledLeavesAllOrNothing(t *testing.T) {
	d := place(t)
	duration := d.installTime(func() { d.removed() })
	ours := contentsOf(t, binary)
	atRandom(t, duration, func(after time.Duration) bool {
		d.removed()
		look := d.watchPlace(ours, true)
		interrupted := d.killInstaller(after, binary, "install")
		look()
		d.isRepaired(binary)
		return interrupted
	})
}

func TestAnUpgradeThatIsKilledLeavesOneOrTheOther(t *testing.T) {
	d := place(t)
	versions := []string{binary, newer}
	next := 0
	duration := d.installTime(func() { next = 1 - next; d.installs(versions[next]) })
	atRandom(t, duration, func(after time.Duration) bool {
		next = 1 - next
		look := d.watchPlace(contentsOf(t, versions...), false)
		interrupted := d.killInstaller(after, versions[next], "install")
		look()
		d.isRepaired(versions[next])
		return interrupted
	})
}

// What it leaves, the next one removes, or the next installer makes whole.
func TestAnUninstallThatIsKilledCanBeRepeatedOrUndone(t *testing.T) {
	d := place(t)
	config := filepath.Join(t.TempDir(), "config")
	write(t, config, `{"log":"off"}`)
	prepare := func() { d.installs(newer); d.installs(binary, "--config", config); d.must("init") }
	prepare()
	duration := d.timeOf(prepare, func() {
		if output, err := d.installer(binary, "uninstall").CombinedOutput(); err != nil {
			t.Fatalf("uninstall: %v: %s", err, output)
		}
	})
	undo := false
	atRandom(t, duration, func(after time.Duration) bool {
		prepare()
		interrupted := d.killInstaller(after, binary, "uninstall")
		if undo = !undo; undo {
			d.isRepaired(binary)
			return interrupted
		}
		if output, err := d.installer(binary, "uninstall").CombinedOutput(); err != nil {
			t.Errorf("uninstall again: %v: %s", err, output)
		}
		d.isGone()
		return interrupted
	})
}

// installTime is how long it usually takes to install the driver, after a
// preparation.
func (d installed) installTime(prepare func()) time.Duration {
	return d.timeOf(prepare, func() { d.installs(binary) })
}

// timeOf is how long something usually takes, after a preparation.
func (d installed) timeOf(prepare, do func()) time.Duration {
	d.t.Helper()
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
func (d installed) killInstaller(after time.Duration, version, command string) bool {
	d.t.Helper()
	installer := d.installer(version, command)
	if err := installer.Start(); err != nil {
		d.t.Fatal(err)
	}
	time.Sleep(after)
	_ = installer.Process.Kill()
	return installer.Wait() != nil
}

// removed makes the driver's place empty.
func (d installed) removed() {
	d.t.Helper()
	if err := os.RemoveAll(filepath.Dir(d.path)); err != nil {
		d.t.Fatal(err)
	}
}

func TestTwoInstallersAtTheSameTime(t *testing.T) {
	d := place(t)
	for range 5 {
		d.removed()
		look := d.watchPlace(contentsOf(t, binary, newer), true)
		one, two := d.installer(binary, "install"), d.installer(newer, "install")
		if err := one.Start(); err != nil {
			t.Fatal(err)
		}
		output, err := two.CombinedOutput()
		if errOne := one.Wait(); errOne != nil || err != nil {
			t.Errorf("one: %v; two: %v: %s", errOne, err, output)
		}
		look()
		d.isWhole(map[string]string{"1.2.3": binary, "1.2.4": newer}[d.version()])
	}
}
