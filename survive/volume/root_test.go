package volume_test

import (
	"fmt"
	"testing"

	"github.com/hanwen/go-fuse/v2/fuse"

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

// An upgrade would make other directories, and other locks, of the volumes that are mounted.
func TestIDsAreForEver(t *testing.T) {
	if got := volume.NewID("/var/lib/kubelet/pods/1d1cd94a-5a5e-4b6c-a8c5-2c6c2ea0b4a1/volumes/example.com~x/info").String(); got != "14627d6549136b" {
		t.Errorf("the id is %s", got)
	}
	if got := volume.Node(1, 3); got != 0x103 {
		t.Errorf("node %#x", got)
	}
}
