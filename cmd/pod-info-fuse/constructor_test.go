package main_test

import (
	"strings"
	"testing"
)

// A file system that opens a file which it may not read must not serve without a standby: no
// process but the first one could make it.
func TestAFileSystemThatOpensWhatItMayNotFailsTheMount(t *testing.T) {
	const path = "/etc/passwd"
	d := install(t)
	d.hostile("opens:" + path)
	dir := t.TempDir()
	for range 2 {
		a := d.callThatEnds("mount", dir, goodOptions)
		if a.Status != "Failure" || !strings.Contains(a.Message, "it said") || !strings.Contains(a.Message, "open "+path+": permission denied") {
			t.Fatalf("mount: %+v", a)
		}
		if count := mountsOn(t, dir); count != 0 || len(d.records()) != 0 {
			t.Errorf("%d mounts, records %q", count, d.records())
		}
	}
	// Nor does it take over from one that serves.
	d.replaceBinary(binary)
	d.must("mount", dir, goodOptions)
	d.hostile("opens:" + path)
	if output, err := d.command("upgrade").CombinedOutput(); err == nil || !strings.Contains(string(output), "open "+path+": permission denied") {
		t.Errorf("upgrade: %v: %s", err, output)
	}
	d.replaceBinary(binary)
	if got := read(t, dir, "pod.uid"); got != podUID+"\n" {
		t.Errorf("%q", got)
	}
}
