package fs

import (
	"testing"

	"github.com/hanwen/go-fuse/v2/fuse"

	"example.com/pod-info-fuse/survive"
	"example.com/pod-info-fuse/survive/volume"
)

// The kernel remembers kinds, in the numbers of nodes and in the positions of listings, while
// another version of the driver takes over. A row of this table is never changed; a file that
// is given up leaves its row, with no name.
func TestKindsAreForEver(t *testing.T) {
	known := []string{
		0: "", // the directory
		1: "pod.uid", 2: "pod.nodename", 3: "pod", 4: "pid",
		5: "pod.name", 6: "pod.namespace", 7: "pod.serviceaccount", 8: "volume.name",
		9: "node.kernel", 10: "node.bootid", 11: "node.arch",
		12: "", // the operator's facts
	}
	if len(files) != len(known) {
		t.Errorf("there are %d kinds of files, and this test knows %d: add the new ones at its end", len(files), len(known))
	}
	for k, name := range known {
		if k >= len(files) || files[k].name != name {
			t.Errorf("kind %d is not %q any more", k, name)
		}
	}
	for k, want := range map[kind]scope{directory: everyVolume, nodeFact: operators} {
		if files[k].name != "" || files[k].scope != want {
			t.Errorf("kind %d is %+v", k, files[k])
		}
	}
}

func TestPositionsInListingsAreForEver(t *testing.T) {
	asked, err := Attributes{Facts: Facts()}.Encode()
	if err != nil {
		t.Fatal(err)
	}
	record := volume.Record{Dir: "/volume", PodUID: "1d1cd94a-5a5e-4b6c-a8c5-2c6c2ea0b4a1", Attributes: asked}
	store := volume.Store{Dir: t.TempDir()}
	if err := store.Put(record); err != nil {
		t.Fatal(err)
	}
	out := fuse.NewDirEntryList(make([]byte, 4096), 0)
	in := &fuse.ReadIn{InHeader: fuse.InHeader{NodeId: volume.Node(record.ID(), directory)}}
	if status := New(survive.Site{Volumes: store}).ReadDir(nil, in, out); !status.Ok() {
		t.Fatal(status)
	}
	entries, err := fuse.ParseDirEntries(out.Bytes())
	if err != nil || len(entries) != 2+11 {
		t.Fatalf("%v, %v", entries, err)
	}
	for i, e := range entries {
		want := uint64(i) + 1 // "." and ".." are 1 and 2
		if i >= 2 {
			k, _ := kindOf(e.Name)
			want = 2 + uint64(k)
		}
		if e.Off != want {
			t.Errorf("%s is at %d, not at %d", e.Name, e.Off, want)
		}
	}
}
