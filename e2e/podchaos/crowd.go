package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// silentPods are pods whose programs never answer their first request, and silentPrograms are those
// of one: as sshfs whose server hangs, after a reboot.
const silentPods, silentPrograms = 4, 10

// silent is such a crowd, which comes and goes.
func (t *trial) silent(ctx context.Context, _ int) (err error) {
	for range silentPods {
		p, err := t.rig.newPod(t.uid)
		if err != nil {
			return err
		}
		volumes, mounts, script := []string{}, []volumeMount{}, ""
		for i := range silentPrograms {
			data := fmt.Sprint("data", i)
			server := data + "-server"
			err = errors.Join(err, p.mount(data, map[string]string{"wait": "60s"}), p.mount(server, map[string]string{"serves": data}))
			at := path.Join("/run", server)
			volumes, mounts = append(volumes, data, server), append(mounts, volumeMount{source: p.volume(server), path: at})
			script += at + "/pod-fuse run -- /bin/sh -c 'exec /bin/sleep 3600' {} &\n"
		}
		defer func() { err = errors.Join(err, p.remove(volumes...)) }()
		if err != nil {
			return err
		}
		c, err := p.start("silent", []string{"/bin/sh", "-c", script + "wait"}, mounts, nil)
		if err != nil {
			return err
		}
		err = await(ctx, stepTimeout, func() error {
			if n := len(c.processes("sleep")); n != silentPrograms {
				return fmt.Errorf("%d programs have a connection, of %d: %s", n, silentPrograms, c.said())
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return sleep(ctx, time.Second)
}

// startSleepers starts processes of the node's that do nothing.
func startSleepers(n int) (stop func(), err error) {
	shell := exec.Command("/bin/sh", "-c", fmt.Sprintf("for i in $(seq %d); do sleep 3600 & done; echo; wait", n))
	shell.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: unix.SIGKILL}
	said, err := shell.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := shell.Start(); err != nil {
		return nil, err
	}
	_, err = said.Read(make([]byte, 1))
	return func() {
		_ = unix.Kill(-shell.Process.Pid, unix.SIGKILL)
		_ = shell.Wait()
	}, err
}

// killAmongSleepers goes on to kill a program, with processes that sleep on the node, and tells how
// long outages take beside those before.
func (t *trial) killAmongSleepers(ctx context.Context, s *served, r *reader, result *row) error {
	stop, err := startSleepers(t.sleepers)
	if err != nil {
		return err
	}
	defer stop()
	before := len(result.outages)
	if err := t.killTimes(ctx, s, r, result); err != nil {
		return err
	}
	alone, among := known(result.outages[:before]), known(result.outages[before:])
	if len(alone) == 0 || len(among) == 0 {
		return errors.New("no pulse saw an outage")
	}
	t.report.note("%s, by %s: outages %s; with %d processes that sleep %s; the medians' ratio %.2f", result.name, result.by,
		spread(alone), t.sleepers, spread(among), float64(medianOf(among))/float64(medianOf(alone)))
	return nil
}
