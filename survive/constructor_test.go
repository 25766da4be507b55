package survive_test

import (
	"strings"
	"testing"

	"example.com/pod-info-fuse/internal/testnode"
)

// A file system that opens a file which it may not read must not serve without a standby: no
// process but the first one could make it.
func TestAFileSystemThatOpensWhatItMayNotFailsTheMount(t *testing.T) {
	const path = "/etc/passwd"
	d := testnode.Install(t)
	hostile(d, "opens:"+path)
	dir := t.TempDir()
	for range 2 {
		a := d.CallThatEnds("mount", dir, testnode.GoodOptions)
		if a.Status != "Failure" || !strings.Contains(a.Message, "it said") || !strings.Contains(a.Message, "open "+path+": permission denied") {
			t.Fatalf("mount: %+v", a)
		}
		testnode.LeftNothing(t, d, dir)
	}
	// Nor does it take over from one that serves.
	d.ReplaceBinary(testnode.Binary)
	d.Must("mount", dir, testnode.GoodOptions)
	hostile(d, "opens:"+path)
	if output, err := d.Command("upgrade").CombinedOutput(); err == nil || !strings.Contains(string(output), "open "+path+": permission denied") {
		t.Errorf("upgrade: %v: %s", err, output)
	}
	d.ReplaceBinary(testnode.Binary)
	if got := testnode.Read(t, dir, "pod.uid"); got != testnode.PodUID+"\n" {
		t.Errorf("%q", got)
	}
}
