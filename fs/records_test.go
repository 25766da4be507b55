package fs

import (
	"testing"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/volume"
)

// read reads the beginning of a file.
func read(f *FS, node uint64) (string, fuse.Status) {
	buffer := make([]byte, 4096)
	result, status := f.Read(nil, &fuse.ReadIn{InHeader: fuse.InHeader{NodeId: node}, Size: 4096}, buffer)
	if !status.Ok() {
		return "", status
	}
	content, _ := result.Bytes(buffer)
	return string(content), status
}

// What is kept of a record is never older than the record.
func TestARecordIsReadAsItIsNow(t *testing.T) {
	store := volume.Store{Dir: t.TempDir()}
	f := New(store, "")
	first := volume.Record{Dir: "/volume", PodUID: "1d1cd94a-5a5e-4b6c-a8c5-2c6c2ea0b4a1"}
	node := nodeID(first.ID(), podUID)
	for _, uid := range []string{first.PodUID, "2d1cd94a-5a5e-4b6c-a8c5-2c6c2ea0b4a1", first.PodUID} {
		if err := store.Put(volume.Record{Dir: first.Dir, PodUID: uid}); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if got, status := read(f, node); !status.Ok() || got != uid+"\n" {
				t.Errorf("read %q, %v, want %s", got, status, uid)
			}
		}
	}
	// More than are kept, and none in the place of another.
	for i := range 100 {
		record := volume.Record{Dir: "/volume-" + string(rune('a'+i%26)) + string(rune('a'+i/26)), PodUID: first.PodUID, PodName: "x"}
		if err := store.Put(record); err != nil {
			t.Fatal(err)
		}
		if got, status := read(f, nodeID(record.ID(), podUID)); !status.Ok() || got != record.PodUID+"\n" {
			t.Errorf("%s: read %q, %v", record.Dir, got, status)
		}
	}
	if err := store.Delete(first.ID()); err != nil {
		t.Fatal(err)
	}
	if got, status := read(f, node); status != fuse.Status(unix.ESTALE) {
		t.Errorf("deleted: read %q, %v", got, status)
	}
}
