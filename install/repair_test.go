package install_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/e2e/stopwatch"
	"example.com/pod-info-fuse/internal/testnode"
)

func TestAWatchRepairsTheDriver(t *testing.T) {
	d := testnode.Place(t)
	w := d.Watch(testnode.Binary, "install")
	w.IsReady()
	d.IsWhole(testnode.Binary)
	whole := testnode.ContentsOf(t, testnode.Binary)
	dir := filepath.Dir(d.Path)
	// A directory goes at once: the installer would repair what is deleted first, and then the rest.
	goes := func(dir string) error { return os.Rename(dir, filepath.Join(t.TempDir(), "gone")) }
	empties := func(dir string) error {
		return unix.Renameat2(unix.AT_FDCWD, dir, unix.AT_FDCWD, t.TempDir(), unix.RENAME_EXCHANGE)
	}
	repairs := 0.0
	var took []time.Duration
	for _, row := range []struct {
		name   string
		damage func() error
	}{
		{"the binary is deleted", func() error { return os.Remove(d.Path) }},
		{"the directory is gone", func() error { return goes(dir) }},
		{"it is cut short", func() error { return os.Truncate(d.Path, 1000) }},
		{"one byte is another", func() error { return testnode.Poke(d.Path, int64(len(whole[0])/2)) }},
		{"it is not executable", func() error { return os.Chmod(d.Path, 0o644) }},
		{"others may not execute it", func() error { return os.Chmod(d.Path, 0o700) }},
		{"others may not enter", func() error { return os.Chmod(dir, 0o700) }},
		{"another version", func() error { return errors.Join(os.Link(testnode.Newer, dir+"/.new"), os.Rename(dir+"/.new", d.Path)) }},
		{"an empty directory", func() error { return empties(dir) }},
		{"the plugin directory is gone", func() error { return goes(d.PluginDir()) }},
	} {
		w.Counts(map[string]float64{"repairs_total{}": repairs})
		w.IsReady()
		var err error
		// Nobody executes it any more.
		testnode.Eventually(t, row.name+": it can be done", func() bool {
			err = row.damage()
			return !errors.Is(err, unix.ETXTBSY)
		})
		if err != nil {
			t.Fatalf("%s: %v", row.name, err)
		}
		watch := stopwatch.Start()
		testnode.Eventually(t, row.name+": it is repaired", func() bool { return d.LookAt(whole, false) == "" })
		one, _ := watch.Stop()
		took = append(took, one)
		repairs++
	}
	// A busy machine may take its time for some of them.
	slices.Sort(took)
	if usual := took[len(took)/2]; usual > time.Second {
		t.Errorf("most were repaired after %v, with an interval of %v: %v", usual, testnode.Interval, took)
	}
	w.Counts(map[string]float64{"repairs_total{}": repairs})
	d.Serves()
}
