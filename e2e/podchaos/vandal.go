package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/e2e/vandal"
)

// runVandal is root of a hostile container, which has a server volume.
func runVandal(args []string) int {
	vandal.Run("/run/pod-fuse", args[0])
	return 0
}

// vandal has root of a pod do its worst to what it shares with others: a pod that was there before
// is served on, and starts its program anew, and a later one starts its own.
func (t *trial) vandal(ctx context.Context) {
	for _, one := range t.programs {
		if ctx.Err() == nil {
			t.report.check(t.vandalOf(one))
		}
	}
	t.judgePromised()
}

func (t *trial) vandalOf(one program) (err error) {
	victim := filepath.Join(t.rig.root, "victim")
	if err := os.WriteFile(victim, nil, 0o600); err != nil {
		return err
	}
	p, err := t.newPod(one)
	if err != nil {
		return err
	}
	before, there, err := t.startPod(p, one, t.by[0])
	defer func() { t.report.check(before.stop()) }()
	if err != nil {
		return err
	}
	hostile, err := t.rig.newPod(0)
	if err != nil {
		return err
	}
	defer func() { t.report.check(hostile.remove("data", "data-server")) }()
	if err := hostile.mountVolumes("60s"); err != nil {
		return err
	}
	output, written := io.Pipe()
	server := volumeMount{source: hostile.volume("data-server"), path: "/run/pod-fuse"}
	if _, err := hostile.start("vandal", []string{"/podchaos", "vandalise", victim}, []volumeMount{server}, written); err != nil {
		return err
	}
	over := time.AfterFunc(stepTimeout, func() { written.CloseWithError(errors.New("the hostile pod does not come to its end")) })
	defer over.Stop()
	lines := bufio.NewScanner(output)
	for lines.Scan() && lines.Text() != vandal.Done {
		t.report.violation("root of a pod %s", lines.Text())
	}
	if err := lines.Err(); err != nil {
		return err
	}
	t.promptly("its server volume, mounted again", func() error {
		return hostile.mount("data-server", map[string]string{"serves": "data"})
	})
	t.promptly("its server volume, unmounted", func() error { return t.rig.callOut("unmount", hostile.volume("data-server")) })
	if info, err := os.Stat(victim); err != nil || info.Mode() != 0o600 {
		t.report.violation("a file of the host's: %v, %v", err, info)
	}

	// A program of the pod that was there before dies, and comes back.
	result := row{name: one.name, by: t.by[0]}
	if err := t.killOnce(context.Background(), before, there, &result); err != nil {
		return fmt.Errorf("a pod that was there before: %w; its program: %s", err, before.said())
	}
	later, err := t.newPod(one)
	if err != nil {
		return err
	}
	s, r, err := t.startPod(later, one, t.by[0])
	defer func() { t.report.check(s.stop()) }()
	if err != nil {
		return fmt.Errorf("a later pod: %w", err)
	}
	installed, err := os.ReadFile(t.rig.binary)
	for _, other := range []*pod{p, later} {
		launcher, readErr := os.ReadFile(filepath.Join(other.volume("data-server"), "pod-fuse"))
		if err = errors.Join(err, readErr); err == nil && !bytes.Equal(installed, launcher) {
			t.report.violation("another pod has a launcher that is not the driver's")
		}
	}
	var stopped error
	if result.seen, stopped = there.stop(); stopped != nil {
		return errors.Join(err, stopped)
	}
	result.beats = there.beats()
	t.report.judge(result)
	seen, stopped := r.stop()
	if len(seen.Paths) > 0 {
		t.report.violation("a later pod's reader: %s", counts(seen.Paths))
	}
	err = errors.Join(err, stopped)
	_ = unix.Unlink(victim)
	return err
}
