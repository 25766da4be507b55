package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/e2e/stopwatch"
)

// stop stops programs, as a bug that waits for ever would. Their own readers wait; the host, the
// kubelet and the removal of the pod do not.
func (t *trial) stop(ctx context.Context) {
	for _, one := range t.programs {
		if t.control {
			t.report.check(t.stopControl(one))
			continue
		}
		for _, first := range []string{"containers", "volumes"} {
			if ctx.Err() == nil {
				t.report.check(t.stopOne(one, first))
			}
		}
	}
	t.judgePromised()
}

// stopOne stops one, and then removes the pod: its containers first, as the kubelet does, or
// its volumes.
func (t *trial) stopOne(one program, first string) (err error) {
	p, err := t.newPod(one)
	if err != nil {
		return err
	}
	s, r, err := t.startPod(p, one, t.by[0])
	if err != nil {
		return errors.Join(err, s.stop())
	}
	victims := s.pids()
	if err := stopAll(victims); err != nil {
		return errors.Join(err, s.stop())
	}
	err = await(context.Background(), stepTimeout, func() error {
		if s := r.seen(); s.Oldest > s.Now-int64(500*time.Millisecond) {
			return errors.New("the program has stopped, and its reader is not held")
		}
		return nil
	})
	if err != nil {
		return errors.Join(err, s.stop())
	}
	what := one.name + ", stopped"
	t.onHost(what, p.volume("data"))
	if t.untouched != nil {
		t.promptly(what+": another pod reads", func() error { return t.untouched.awaitProgress(context.Background(), now()) })
	}
	t.promptly(what+": the kubelet starts again", func() error {
		return errors.Join(t.rig.callOut("init"), p.mount("data", map[string]string{"wait": "60s"}))
	})
	t.promptly(what+": another container starts", func() error {
		_, err := p.start("late", []string{"sleep", "infinity"}, p.appMounts(), nil)
		return err
	})
	if first == "volumes" {
		t.unmountPromptly(what, "unmount, beside its containers", p)
		t.checkAborted(r)
	}
	// The kubelet kills all at once. A reader whose request the program has read ends with that.
	t.promptly(what+": SIGKILL for its containers", func() error {
		problems := make([]error, len(p.containers))
		var all sync.WaitGroup
		for i, c := range p.containers {
			all.Go(func() { _, problems[i] = c.kill() })
		}
		all.Wait()
		return errors.Join(problems...)
	})
	if first == "containers" {
		t.unmountPromptly(what, "unmount", p)
	}
	return p.remove("data-server")
}

// stopControl stops a program that root has mounted: every process that looks at its mount hangs.
func (t *trial) stopControl(one program) error {
	p, err := t.newPod(one)
	if err != nil {
		return err
	}
	s, _, err := t.startControl(p, one)
	if s != nil {
		defer func() { t.report.check(s.stop()) }()
	}
	if err != nil {
		return err
	}
	if err := stopAll(s.pids()); err != nil {
		return err
	}
	t.onHost(one.name+", mounted by root and stopped", filepath.Join(p.dir, "control", "m"))
	return nil
}

// stopAll stops processes. A signal takes effect later than kill(2) returns.
func stopAll(pids []int) error {
	for _, pid := range pids {
		if err := unix.Kill(pid, unix.SIGSTOP); err != nil {
			return err
		}
	}
	return await(context.Background(), stepTimeout, func() error {
		for _, pid := range pids {
			threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/[0-9]*", pid))
			for _, thread := range threads {
				number, _ := strconv.Atoi(filepath.Base(thread))
				if state := stateOf(number); state != 'T' {
					return fmt.Errorf("thread %d of process %d, which was stopped, is in state %c", number, pid, state)
				}
			}
		}
		return nil
	})
}

// onHost looks at a volume as operators and node agents do.
func (t *trial) onHost(what, volume string) {
	hang, commands := stepTimeout, [][]string{
		{"stat", volume},
		{"stat", filepath.Join(volume, fileName(0))},
		{"ls", "-lR", volume},
		{"find", filepath.Dir(volume)},
		{"df", volume},
		{"df", "-a"},
	}
	if t.control {
		hang, commands = time.Second, commands[:1] // it hangs, as each of them does
	}
	for _, command := range commands {
		t.promptly(what+": "+strings.Join(command, " "), func() error { return runFor(hang, command) })
	}
}

// unmountPromptly unmounts, as is promised within a second.
func (t *trial) unmountPromptly(what, kind string, p *pod) {
	took := t.promptly(what+": "+kind, func() error { return p.unmount("data") })
	t.took[kind] = append(t.took[kind], took)
}

// promptly demands that something that works is done promptly.
func (t *trial) promptly(what string, do func() error) time.Duration {
	watch := stopwatch.Start()
	err := do()
	took, late := watch.Stop()
	if err == nil && took > promptly() {
		err = fmt.Errorf("took %v, and the machine stood still for %v", took, late)
	}
	if err != nil {
		t.report.refute("%s: %v", what, err)
	}
	t.report.note("%7s ms  %s", ms(took), strings.ReplaceAll(what, t.rig.root, "…"))
	return took
}

// runFor runs a command of the host. One that hangs is left to its fate: it may not be possible
// to kill it.
func runFor(limit time.Duration, command []string) error {
	cmd := exec.Command(command[0], command[1:]...)
	done := make(chan error, 1)
	if err := cmd.Start(); err != nil {
		return err
	}
	go func() { done <- cmd.Wait() }()
	select {
	case err := <-done:
		// df -a and find tell of other mounts by their status, such as of a user's.
		var exit *exec.ExitError
		if errors.As(err, &exit) && command[0] == "df" {
			return nil
		}
		return err
	case <-time.After(limit):
		state := stateOf(cmd.Process.Pid)
		_ = cmd.Process.Kill()
		return fmt.Errorf("hangs (%c)", state)
	}
}

// checkAborted demands that all requests that were held have got ECONNABORTED.
func (t *trial) checkAborted(r *reader) {
	s, err := r.stop()
	if err != nil {
		t.report.violation("after unmount: %v", err)
		return
	}
	aborted := 0
	for _, all := range []map[string]int{s.Paths, s.Open} {
		for key, n := range all {
			if strings.HasSuffix(key, " ECONNABORTED") {
				aborted += n
			}
		}
	}
	if aborted == 0 {
		t.report.violation("after unmount, nobody got ECONNABORTED: %s; %s", counts(s.Paths), counts(s.Open))
	}
	t.report.note("%7d     readers got ECONNABORTED", aborted)
}
