package fs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"example.com/pod-info-fuse/volume"
)

// Where the page cache cannot be filled in time, the version that was opened is
// read all the same, also when it was replaced meanwhile.
func TestAVersionIsReadWithoutThePageCache(t *testing.T) {
	store := volume.Store{Dir: t.TempDir()}
	record := volume.Record{Dir: "/volume", PodUID: "1d1cd94a-5a5e-4b6c-a8c5-2c6c2ea0b4a1"}
	if err := store.Put(record); err != nil {
		t.Fatal(err)
	}
	facts := t.TempDir()
	put := func(content string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(facts, ".new"), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(facts, ".new"), filepath.Join(facts, "zone")); err != nil {
			t.Fatal(err)
		}
	}
	f := New(store, facts)
	stuck := make(chan struct{})
	defer close(stuck)
	f.Store = func(uint64, []byte) error { <-stuck; return nil }

	for _, content := range []string{"first", "second, while the first is stuck"} {
		put(content)
		var entry fuse.EntryOut
		if status := f.Lookup(nil, &fuse.InHeader{NodeId: nodeID(record.ID(), directory)}, "node.zone", &entry); !status.Ok() {
			t.Fatal(status)
		}
		opening := time.Now()
		if status := f.Open(nil, &fuse.OpenIn{InHeader: fuse.InHeader{NodeId: entry.NodeId}}, new(fuse.OpenOut)); !status.Ok() {
			t.Fatal(status)
		}
		if took := time.Since(opening); took > time.Second {
			t.Errorf("open took %v", took)
		}
		put("another one")
		got, status := read(f, entry.NodeId)
		if !status.Ok() {
			t.Fatal(status)
		}
		if !strings.HasPrefix(got, content) {
			t.Errorf("read %q, want %q", got, content)
		}
	}
}
