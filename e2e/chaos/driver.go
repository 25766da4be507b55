package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// driver is an installation of the driver, below one directory, as a kubelet
// has it, and the volume that is always there.
type driver struct {
	root   string // has everything that this program makes, but for facts
	facts  string // a directory
	name   string // vendor/driver, unlike any other on this machine
	binary string
	volume string
}

// podInfo is the program whose files are known. Others are asked for one file.
const podInfo = "pod-info-fuse"

// log is the file that the driver logs to.
func (d *driver) log() string { return filepath.Join(d.root, "log") }

// install installs a binary as the driver of a program.
func install(program, binary string) (*driver, error) {
	root, err := os.MkdirTemp("", "chaos-")
	if err != nil {
		return nil, err
	}
	vendor := filepath.Base(root) + ".example.com"
	d := &driver{
		root:   root,
		name:   vendor + "/" + program,
		binary: filepath.Join(root, "plugins", vendor+"~"+program, program),
	}
	d.volume = d.volumeOf("1d1cd94a-5a5e-4b6c-a8c5-2c6c2ea0b4a1")
	err = errors.Join(os.MkdirAll(filepath.Dir(d.binary), 0o755), d.replace(binary))
	if program == podInfo {
		err = errors.Join(err, d.configure())
	}
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(root), os.RemoveAll(d.facts))
	}
	return d, nil
}

// replace installs a binary as an upgrade does: complete and on disk before it
// gets its name.
func (d *driver) replace(binary string) error {
	content, err := os.ReadFile(binary)
	if err != nil {
		return err
	}
	hidden := filepath.Join(filepath.Dir(d.binary), ".new")
	// Or a program that somebody else starts meanwhile has the file open for writing until it is
	// executed, and the driver cannot be: ETXTBSY.
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	file, err := os.OpenFile(hidden, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o711)
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	err = errors.Join(err, file.Sync(), file.Close())
	if err != nil {
		return err
	}
	return os.Rename(hidden, d.binary)
}

// callOut calls the driver as the kubelet does.
func (d *driver) callOut(args ...string) error {
	output, err := d.execute(args...)
	if err != nil {
		return err
	}
	var answer struct{ Status, Message string }
	if err := json.Unmarshal(output, &answer); err != nil {
		return fmt.Errorf("the answer to %q, %q: %w", args, output, err)
	}
	if answer.Status != "Success" {
		return fmt.Errorf("%q: %s: %s", args, answer.Status, answer.Message)
	}
	return nil
}

// commandTimeout is how long the driver may take for a command, on any machine. It gives up itself
// before that.
var commandTimeout = 90 * time.Second

// execute returns what a command prints on either stream: the kubelet makes no
// difference between them, and waits until nobody holds them any more.
func (d *driver) execute(args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), commandTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, d.binary, args...)
	cmd.WaitDelay = 20 * time.Second
	// In a cgroup namespace of its own, the driver's cgroup is the root, which
	// the daemon need not leave: here that would take it out of whatever limits
	// this program is run with.
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWCGROUP}
	type result struct {
		output []byte
		err    error
	}
	// In a goroutine: a process that waits for a FUSE server that is gone cannot
	// even be killed, and this program has to report that.
	done := make(chan result, 1)
	go func() {
		output, err := cmd.CombinedOutput()
		done <- result{output, err}
	}()
	select {
	case r := <-done:
		if r.err != nil {
			return nil, fmt.Errorf("%s %q: %w: %s", d.binary, args, r.err, r.output)
		}
		return r.output, nil
	case <-time.After(commandTimeout + 30*time.Second):
		return nil, fmt.Errorf("%s %q cannot be killed", d.binary, args)
	}
}
