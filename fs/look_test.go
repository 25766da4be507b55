package fs

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"example.com/pod-info-fuse/survive"
	"example.com/pod-info-fuse/survive/volume"
)

// withFacts is the file system of one volume, whose directory is returned, and of facts.
func withFacts(t *testing.T, number int) (fs *FS, node uint64, facts string) {
	t.Helper()
	store := volume.Store{Dir: t.TempDir()}
	record := volume.Record{Dir: "/volume", PodUID: "1d1cd94a-5a5e-4b6c-a8c5-2c6c2ea0b4a1"}
	if err := store.Put(record); err != nil {
		t.Fatal(err)
	}
	facts = t.TempDir()
	if err := os.Chmod(facts, 0o755); err != nil {
		t.Fatal(err)
	}
	for i := range number {
		put(t, facts, fmt.Sprint("fact-", i))
	}
	input, err := os.Open(facts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { input.Close() })
	fs = New(survive.Site{Volumes: store, Input: input, Report: func(problem string) { t.Error(problem) }})
	return fs, volume.Node(record.ID(), directory), facts
}

func put(t *testing.T, facts, name string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(facts, name), nil, 0o644); err != nil {
		t.Fatal(err)
	}
}

// A directory that has not changed is looked at once in lookInterval at most, however many list.
func TestWhoListsSharesALook(t *testing.T) {
	const number = 50
	fs, node, _ := withFacts(t, number)
	var looks atomic.Int64
	fs.facts.Reserved = func(string) bool { looks.Add(1); return false }
	time.Sleep(timeStep + timeStep/10) // after which it is known to be as it was
	began, times := time.Now(), int64(0)
	for ; times < 100; times++ {
		listAll(t, fs, node, 4096)
	}
	if most := int64(time.Since(began)/lookInterval) + 1; looks.Load() > most*number {
		t.Errorf("%d facts were looked at %d times for %d listings", number, looks.Load(), times)
	}
}

// Whatever came or went before a listing begins is seen by it.
func TestAListingHasWhatIsThereNow(t *testing.T) {
	fs, node, facts := withFacts(t, 1)
	for i := range 100 {
		name := fmt.Sprint("new-", i)
		put(t, facts, name)
		if names := listAll(t, fs, node, 4096); !slices.Contains(names, "node."+name) {
			t.Fatalf("%s is missing: %q", name, names)
		}
		if i%50 == 0 { // so long ago that the next listing could share it
			time.Sleep(timeStep + timeStep/10)
			listAll(t, fs, node, 4096)
		}
		if err := os.Remove(filepath.Join(facts, name)); err != nil {
			t.Fatal(err)
		}
		if names := listAll(t, fs, node, 4096); slices.Contains(names, "node."+name) {
			t.Fatalf("%s is there: %q", name, names)
		}
	}
}
