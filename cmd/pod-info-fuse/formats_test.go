package main_test

import (
	"path/filepath"
	"strings"
	"testing"
)

// A downgrade may meet a connection that a newer version has begun in a way of its own. It
// must find out before it takes over, and the pair that serves goes on.
func TestAVersionThatCannotGoOnWithTheConnectionDoesNotTakeOver(t *testing.T) {
	t.Parallel()
	d := install(t)
	l := readAll(t, d.mount())
	d.isRefusedWhile(l, filepath.Join(d.runDir, "connection.json"), `"format": 1`, `"format": 2`)
}

// isRefusedWhile checks that a newer version does not take over while a file has a later
// format, and does once the file is as it was before.
func (d installed) isRefusedWhile(l *load, path, format, later string) {
	d.t.Helper()
	active, standby := d.pair()
	before := read(d.t, path)
	write(d.t, path, strings.Replace(before, format, later, 1))
	d.replaceBinary(newer)
	d.must("init")
	if s := d.status().Daemon; !strings.Contains(s.UpgradeError, "written by a newer version") {
		d.t.Errorf("after init: %+v", s)
	}
	if output, err := d.command("upgrade").CombinedOutput(); err == nil || !strings.Contains(string(output), "format 2, newer than 1") {
		d.t.Errorf("upgrade: %v: %s", err, output)
	}
	if a, s := d.pair(); a != active || s != standby {
		d.t.Error("another pair serves")
	}
	l.goesOn()
	write(d.t, path, before)
	if output, err := d.command("upgrade").CombinedOutput(); err != nil {
		d.t.Errorf("upgrade: %v: %s", err, output)
	}
	if s := d.status().Daemon; s.Active.Version != "1.2.4" || s.UpgradeError != "" {
		d.t.Errorf("with a format that it knows: %+v", s)
	}
	l.stop()
}
