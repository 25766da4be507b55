package main

import (
	"context"
	"math/rand/v2"
	"os"
	"time"
)

// A trial is one run.
type trial struct {
	settings
	report *report
	rig    *rig
	random *rand.Rand

	upgrades  int                        // so far
	untouched *reader                    // of another pod; nil: nobody asks
	took      map[string][]time.Duration // of what is promised within a second, by its kind
}

func newTrial(s settings) *trial {
	r := newReport(s.control && (s.kills > 0 || s.verb == "stop"))
	r.before6_9 = s.before6_9
	return &trial{settings: s, report: r, random: rand.New(rand.NewPCG(s.seed, 0)), took: map[string][]time.Duration{}}
}

// verbs are what a trial can do, and what it does unless flags say otherwise.
var verbs = map[string]struct {
	do       func(*trial, context.Context)
	programs string
	by       string
	kills    int
}{
	"kill":     {(*trial).killAll, "bindfs,sshfs,squashfuse,gocryptfs,s3fs,rclone", byFusermount, 100},
	"programs": {(*trial).killAll, "all", byFusermount + "," + byFD, 3},
	"wait":     {(*trial).wait, "bindfs", byFusermount, 3},
	"measure":  {(*trial).measure, "bindfs,squashfuse_ll,gocryptfs", byFusermount, 0},
	"soak":     {(*trial).soak, "bindfs,loopback", byFusermount + "," + byFD, 0},
	"vandal":   {(*trial).vandal, "bindfs", byFusermount, 1},
	"stop":     {(*trial).stop, "bindfs,squashfuse_ll", byFusermount, 3},
}

// run runs the trial from the installation to the last trace of it.
func (t *trial) run(ctx context.Context) {
	root, err := os.MkdirTemp("", "podchaos-")
	if err == nil {
		err = os.Chmod(root, 0o755)
	}
	if err != nil {
		t.report.violation("%v", err)
		return
	}
	t.rig = &rig{driver: driver{root: root}}
	defer func() {
		for _, left := range t.rig.cleanUp() {
			t.report.violation("left: %s", left)
		}
	}()
	if t.rig.sources, err = startSources(t.settings, root); err != nil {
		t.report.violation("%v", err)
		return
	}
	if !t.control {
		if t.rig.driver, err = installDriver(root, program17, t.binary); err != nil {
			t.report.violation("install the driver: %v", err)
			return
		}
		if err := t.rig.callOut("init"); err != nil {
			t.report.violation("%v", err)
			return
		}
	}
	beside := t.startBeside()
	defer beside.stop()
	defer t.startOther()()
	verbs[t.verb].do(t, ctx)
}

// chance is a time up to the longest.
func (t *trial) chance(longest time.Duration) time.Duration {
	return time.Duration(t.random.Int64N(int64(longest)))
}
