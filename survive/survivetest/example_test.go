package survivetest_test

import (
	"encoding/json"
	"testing"

	"example.com/pod-info-fuse/survive"
	"example.com/pod-info-fuse/survive/survivetest"
	"example.com/pod-info-fuse/survive/volume"
)

func ExampleTest() {
	driver := survive.Driver{
		Program: "colours",
		// FileSystem: ...
		Reads: func() []string { return []string{"/etc/colours"} },
	}
	// In a file of tests, with CGO_ENABLED=0 go test:
	_ = func(t *testing.T) { // func TestTheColoursSurvive(t *testing.T)
		survivetest.Test{
			Driver: driver,
			// Two volumes, one with what the driver makes of the options of a mount.
			Volumes: []volume.Record{{}, {Attributes: json.RawMessage(`{"format":1,"colour":"red"}`)}},
			// One file of each volume has another content at each read.
			Changes: func(path string) bool { return path == "now" },
		}.Run(t)
	}
}
