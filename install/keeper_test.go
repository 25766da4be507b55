package install

import (
	"testing"

	"example.com/pod-info-fuse/calllog"
	"example.com/pod-info-fuse/node"
)

// Who makes metrics reads the node meanwhile.
func TestALookDoesNotWriteToTheNode(t *testing.T) {
	target := newTarget(t, nil)
	k := &Keeper{
		Target: target, Binary: content(t, version("1")).Binary, Node: node.New(target.Driver, "1", calllog.New("off")),
		Config: func() ([]byte, error) { return nil, nil }, Log: t.Logf,
	}
	before := k.Node
	if err := k.Look(); err != nil {
		t.Fatal(err)
	}
	if k.Node != before {
		t.Errorf("it was %+v, and is %+v", before, k.Node)
	}
}
