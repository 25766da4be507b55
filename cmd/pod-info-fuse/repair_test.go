package main_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/e2e/stopwatch"
)

func TestAWatchRepairsTheDriver(t *testing.T) {
	d := place(t)
	w := d.watch(binary, "install")
	w.isReady()
	d.isWhole(binary)
	whole := contentsOf(t, binary)
	dir := filepath.Dir(d.path)
	repairs := 0.0
	var took []time.Duration
	for _, row := range []struct {
		name   string
		damage func() error
	}{
		{"the binary is deleted", func() error { return os.Remove(d.path) }},
		{"the directory is deleted", func() error { return os.RemoveAll(dir) }},
		{"it is cut short", func() error { return os.Truncate(d.path, 1000) }},
		{"one byte is another", func() error { return poke(d.path, int64(len(whole[0])/2)) }},
		{"it is not executable", func() error { return os.Chmod(d.path, 0o644) }},
		{"others may not execute it", func() error { return os.Chmod(d.path, 0o700) }},
		{"others may not enter", func() error { return os.Chmod(dir, 0o700) }},
		{"another version", func() error { return errors.Join(os.Link(newer, dir+"/.new"), os.Rename(dir+"/.new", d.path)) }},
		{"an empty directory", func() error { return errors.Join(os.RemoveAll(dir), os.Mkdir(dir, 0o755)) }},
		{"the plugin directory is deleted", func() error { return os.RemoveAll(d.pluginDir()) }},
	} {
		w.counts(map[string]float64{"repairs_total{}": repairs})
		w.isReady()
		var err error
		// Nobody executes it any more, and the installer has not put it back meanwhile.
		eventually(t, row.name+": it can be done", func() bool {
			err = row.damage()
			return !errors.Is(err, unix.ETXTBSY) && !errors.Is(err, unix.ENOTEMPTY)
		})
		if err != nil {
			t.Fatalf("%s: %v", row.name, err)
		}
		watch := stopwatch.Start()
		eventually(t, row.name+": it is repaired", func() bool { return d.lookAt(whole, false) == "" })
		one, _ := watch.Stop()
		took = append(took, one)
		repairs++
	}
	// A busy machine may take its time for some of them.
	slices.Sort(took)
	if usual := took[len(took)/2]; usual > time.Second {
		t.Errorf("most were repaired after %v, with an interval of %v: %v", usual, interval, took)
	}
	w.counts(map[string]float64{"repairs_total{}": repairs})
	d.serves()
}

// poke changes a byte in the middle of a file.
func poke(path string, at int64) error {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	b := make([]byte, 1)
	if _, err := file.ReadAt(b, at); err != nil {
		return err
	}
	b[0] ^= 0xff
	_, err = file.WriteAt(b, at)
	return err
}
