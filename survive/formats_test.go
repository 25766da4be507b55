package survive_test

import (
	"path/filepath"
	"strings"
	"testing"

	"example.com/pod-info-fuse/internal/testnode"
)

// A downgrade may meet a connection that a newer version has begun in a way of its own. It
// must find out before it takes over, and the pair that serves goes on.
func TestAVersionThatCannotGoOnWithTheConnectionDoesNotTakeOver(t *testing.T) {
	t.Parallel()
	d := testnode.Install(t)
	l := readAll(t, d.Mount())
	isRefusedWhile(d, l, filepath.Join(d.RunDir, "connection.json"), `"format": 1`, `"format": 2`)
}

// isRefusedWhile checks that a newer version does not take over while a file has a later
// format, and does once the file is as it was before.
func isRefusedWhile(d testnode.Driver, l *load, path, format, later string) {
	d.T.Helper()
	active, standby := d.Pair()
	before := testnode.Read(d.T, path)
	testnode.Write(d.T, path, strings.Replace(before, format, later, 1))
	d.ReplaceBinary(testnode.Newer)
	d.Must("init")
	if s := d.Status().Daemon; !strings.Contains(s.UpgradeError, "written by a newer version") {
		d.T.Errorf("after init: %+v", s)
	}
	if output, err := d.Command("upgrade").CombinedOutput(); err == nil || !strings.Contains(string(output), "format 2, newer than 1") {
		d.T.Errorf("upgrade: %v: %s", err, output)
	}
	if a, s := d.Pair(); a != active || s != standby {
		d.T.Error("another pair serves")
	}
	l.goesOn()
	testnode.Write(d.T, path, before)
	if output, err := d.Command("upgrade").CombinedOutput(); err != nil {
		d.T.Errorf("upgrade: %v: %s", err, output)
	}
	if s := d.Status().Daemon; s.Active.Version != "1.2.4" || s.UpgradeError != "" {
		d.T.Errorf("with a format that it knows: %+v", s)
	}
	l.stop()
}
