package install

import (
	"testing"

	"example.com/pod-info-fuse/survive"
)

// The metrics read the node meanwhile.
func TestALookDoesNotWriteToTheNode(t *testing.T) {
	target := newTarget(t, nil)
	k := &Keeper{
		Target: target, Binary: content(t, version("1")).Binary, Node: survive.Driver{Program: "pod-info-fuse", Version: "1"}.NodeFor(target.Driver, survive.Settings{Log: "off"}),
		Config: func() ([]byte, error) { return nil, nil }, Log: t.Logf,
	}
	before := k.Node
	if err := k.Look(); err != nil {
		t.Fatal(err)
	}
	if k.Node.Settings != before.Settings {
		t.Errorf("it was %+v, and is %+v", before.Settings, k.Node.Settings)
	}
}
