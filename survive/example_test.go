package survive_test

import (
	"sync/atomic"
	"unsafe"

	"example.com/pod-info-fuse/survive"
	"example.com/pod-info-fuse/survive/volume"
)

// A file system that counts, whoever serves: its State is the memory of all processes. Package
// command makes a program of it.
func ExampleDriver() {
	type visits struct {
		volume.Root // answers for the root and the volumes' directories; the rest is the file system's own
		greeting    string
		count       *atomic.Uint64
	}
	_ = survive.Driver{
		Program: "visits",
		Version: "1.0.0",
		State:   8,
		FileSystem: func(site survive.Site) survive.FileSystem {
			return &visits{
				Root:     volume.NewRoot(site.Volumes),
				greeting: site.Config, // what Program.Configure has read
				count:    (*atomic.Uint64)(unsafe.Pointer(unsafe.SliceData(site.State))),
			}
		},
		Reads: func() []string { return []string{"/etc/visits"} }, // and no other file
	}
}
