package volume_test

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"example.com/pod-info-fuse/survive/volume"
)

// A node id says which volume it is of, and what the node is there: a process that has just begun
// knows both.
func ExampleNode() {
	const timeNumber = 1 // of the volume's file; it never gets another meaning
	id := volume.NewID("/var/lib/kubelet/pods/1d1cd94a-5a5e-4b6c-a8c5-2c6c2ea0b4a1/volumes/example.com~clock/clock")
	of, number := volume.Split(volume.Node(id, timeNumber))
	fmt.Println(of == id, number)
	// Output: true 1
}

// A volume of more than 256 nodes has ids of its own: a hash of the volume's id and the path. A
// process that is asked for one that it does not know finds it among the paths of all volumes that
// have a record.
func ExampleStore_IDs() {
	paths := []string{"ca/ca.crt", "tls/tls.crt", "tls/tls.key"} // and hundreds more
	idOf := func(of volume.ID, path string) uint64 {
		sum := sha256.Sum256(fmt.Appendf(nil, "%s/%s", of, path))
		return binary.BigEndian.Uint64(sum[:]) | 1 // an even one is a volume's directory: volume.Node(of, 0)
	}
	find := func(volumes volume.Store, node uint64) (of volume.ID, path string) {
		all, _ := volumes.IDs()
		for _, of := range all {
			for _, path := range paths { // keep the result, which may be lost at any time
				if idOf(of, path) == node {
					return of, path
				}
			}
		}
		return 0, "" // ESTALE
	}
	_ = find // for Lookup, GetAttr, Read, ReadDir and VolumeOf
}
