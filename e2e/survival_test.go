//go:build e2e

package e2e

import "testing"

// The daemon's processes die one after the other, and a pod that reads all the
// time does not notice.
func TestSurvival(t *testing.T) {
	d := testNode.driver(driverName)
	m := newManifest("survival")
	m.Spec.Containers = []*container{newWatcher("open-again"), newWatcher("keep-open", "--keep-open")}
	p := runPod(t, m)
	before := p.containers(t)
	goOn := func() {
		t.Helper()
		for name := range before {
			p.goesOn(t, name)
		}
	}
	goOn()
	status, err := d.Status()
	if err != nil {
		t.Fatal(err)
	}
	takeovers := status.Daemon.Takeovers

	for range 5 {
		was := d.pair(t)
		kill(t, was.Active)
		if now := d.pair(t, was.Active); now.Active != was.Standby {
			t.Errorf("the standby was %d, and %d took over", was.Standby, now.Active)
		}
		goOn()
	}
	was := d.pair(t)
	kill(t, was.Standby)
	if now := d.pair(t, was.Standby); now.Active != was.Active {
		t.Errorf("the standby died, and %d serves and not %d", now.Active, was.Active)
	}
	goOn()

	p.checkContainers(t, before)
	for name := range before {
		p.checkWatcher(t, name)
	}
	if status, err = d.Status(); err != nil {
		t.Fatal(err)
	}
	if now := status.Daemon; now.Takeovers != takeovers+5 || now.LastTakeover.Cause != "crash" {
		t.Errorf("there were %d take-overs and then 5 crashes; the driver tells of %d, the last for %q", takeovers, now.Takeovers, now.LastTakeover.Cause)
	}
	if err := p.delete(); err != nil {
		t.Error(err)
	}
}
