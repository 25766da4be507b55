package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// bench is one run.
type bench struct {
	settings settings
	ctx      context.Context
	figures  figures
	root     string // has everything that the run makes
	driver   *driver
	began    time.Time
	machine  string // and what else it did, as rows of a table

	loadBefore float64
}

// files are what there is to read in a volume.
var files = []string{"pod.uid", "pod.nodename", "pod"}

// all measures everything.
func (b *bench) all() (err error) {
	b.loadBefore = loadAverage()
	if err := b.with(func() error { return b.step("call-outs and memory", b.ladder) }); err != nil {
		return err
	}
	if err := b.with(func() error { return b.step("servers", b.serving) }); err != nil {
		return err
	}
	if err := b.step("take-over", b.takeOver); err != nil {
		return err
	}
	if b.machine, err = b.describe(); err != nil {
		return err
	}
	return errors.Join(b.save(), b.report())
}

// with does something with a driver that has just been installed, and removes it.
func (b *bench) with(do func() error) (err error) {
	if b.root, err = os.MkdirTemp("", "bench-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(b.root), b.left()) }()
	for _, dir := range []string{"source", "target"} {
		if err := os.Mkdir(filepath.Join(b.root, dir), 0o755); err != nil {
			return err
		}
	}
	if b.driver, err = install(b.root, b.settings.binary); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.driver.uninstall()) }()
	return do()
}

func (b *bench) step(name string, do func() error) error {
	b.say("%s", name)
	if err := do(); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// say tells how far the run is.
func (b *bench) say(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%4.0f s  %s\n", time.Since(b.began).Seconds(), fmt.Sprintf(format, args...))
}

// sleep waits, unless the program is told to end.
func (b *bench) sleep(d time.Duration) error {
	select {
	case <-b.ctx.Done():
		return fmt.Errorf("interrupted: %w", context.Cause(b.ctx))
	case <-time.After(d):
		return nil
	}
}
