package volume_test

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/survive/volume"
)

func TestNodesAreDistinctAndComputed(t *testing.T) {
	seen := map[uint64]string{fuse.FUSE_ROOT_ID: "root"}
	for _, dir := range []string{"/a", "/b"} {
		id := volume.NewID(dir)
		for _, number := range []uint8{0, 1, 16, 255} {
			node, name := volume.Node(id, number), fmt.Sprint(dir, number)
			if other, taken := seen[node]; taken {
				t.Errorf("%s has the number of %s", name, other)
			}
			seen[node] = name
			if gotID, got := volume.Split(node); gotID != id || got != number {
				t.Errorf("%s: split into %s, %d", name, gotID, got)
			}
		}
	}
}

// Whatever was read before, the answer is what the record says now.
func TestTheRootHasWhatTheRecordsSay(t *testing.T) {
	store := volume.Store{Dir: t.TempDir()}
	root := volume.NewRoot(store)
	one, other := good(), good()
	other.Dir, other.PodUID = "/elsewhere", strings.Replace(uid, "1", "2", 1)
	check := func(want volume.Record) {
		t.Helper()
		for range 2 { // the second time, it is the one that was read last
			got, status := root.Record(volume.Node(want.ID(), 1))
			if !status.Ok() || !reflect.DeepEqual(got, want) {
				t.Errorf("%+v, %v; want %+v", got, status, want)
			}
		}
	}
	for _, record := range []volume.Record{one, other} {
		if err := store.Put(record); err != nil {
			t.Fatal(err)
		}
		check(record)
	}
	check(one)
	one.PodUID = other.PodUID // the next pod on the same directory
	if err := store.Put(one); err != nil {
		t.Fatal(err)
	}
	check(one)
	check(other)
	if err := os.WriteFile(filepath.Join(store.Dir, other.ID().String()+".json"), []byte("damaged"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, status := root.Record(volume.Node(other.ID(), 1)); status != fuse.EIO {
		t.Errorf("a damaged record: %v", status)
	}
	check(one)
	if err := store.Delete(one.ID()); err != nil {
		t.Fatal(err)
	}
	if _, status := root.Record(volume.Node(one.ID(), 1)); status != fuse.Status(unix.ESTALE) {
		t.Errorf("no record: %v", status)
	}
}

// An upgrade would make other directories, and other locks, of the volumes that are mounted.
func TestIDsAreForEver(t *testing.T) {
	if got := volume.NewID("/var/lib/kubelet/pods/1d1cd94a-5a5e-4b6c-a8c5-2c6c2ea0b4a1/volumes/example.com~x/info").String(); got != "14627d6549136b" {
		t.Errorf("the id is %s", got)
	}
	if got := volume.Node(1, 3); got != 0x103 {
		t.Errorf("node %#x", got)
	}
}
