package main

import (
	"os"

	"golang.org/x/sys/unix"
)

// cleanUp removes what a failure has left. It comes last: as long as one process
// of the driver lives, a reader that hangs would keep this program from exiting.
func (t *trial) cleanUp() {
	d := t.driver
	if len(d.processes()) > 0 || len(d.mounts()) > 0 {
		if _, err := d.execute("stop", "--force"); err != nil {
			t.report.violation("%v", err)
		}
	}
	for _, pid := range d.processes() {
		if err := d.signal(pid, unix.SIGKILL); err != nil {
			t.report.violation("%v", err)
		}
	}
	for _, point := range d.mounts() {
		if err := unix.Unmount(point, unix.MNT_DETACH); err != nil {
			t.report.violation("detach %s: %v", point, err)
		}
	}
	for _, group := range d.cgroups() {
		if err := unix.Rmdir(group); err != nil {
			t.report.violation("remove %s: %v", group, err)
		}
	}
	if err := os.RemoveAll(d.facts); err != nil {
		t.report.violation("%v", err)
	}
	// Nothing may be removed through a mount.
	if len(d.mounts()) == 0 {
		if err := os.RemoveAll(d.root); err != nil {
			t.report.violation("%v", err)
		}
	}
}
