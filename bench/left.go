package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// left is an error that says what is left: a mount, a process, or what the driver has
// in /run.
func (b *bench) left() (err error) {
	mounts, failed := os.ReadFile("/proc/self/mountinfo")
	if failed != nil || bytes.Contains(mounts, []byte(b.root)) {
		err = errors.Join(failed, fmt.Errorf("a mount below %s is left", b.root))
	}
	commands, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, command := range commands {
		if text, _ := os.ReadFile(command); bytes.Contains(text, []byte(b.root)) {
			err = errors.Join(err, fmt.Errorf("process %s is left: %q", filepath.Base(filepath.Dir(command)), text))
		}
	}
	run, _ := filepath.Glob("/run/pod-info-fuse/" + filepath.Base(b.root) + "*")
	if len(run) > 0 {
		err = errors.Join(err, fmt.Errorf("%s is left", run))
	}
	return err
}
