package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
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

	loadBefore  float64
	takenBefore time.Duration // see taken
}

// files are what there is to read in a volume.
var files = []string{"pod.uid", "pod.nodename", "pod"}

// all measures everything.
func (b *bench) all() (err error) {
	b.loadBefore, b.takenBefore = loadAverage(), taken()
	if err := b.with(func() error { return b.step("call-outs and memory", b.ladder) }); err != nil {
		return err
	}
	if err := b.with(func() error { return b.step("containers", b.besideContainers) }); err != nil {
		return err
	}
	if err := b.step("two doors", b.twoDoors); err != nil {
		return err
	}
	for i := range b.settings.lives {
		name := fmt.Sprintf("servers, %d of %d", i+1, b.settings.lives)
		if err := b.with(func() error { return b.step(name, b.serving) }); err != nil {
			return err
		}
		if err := b.with(func() error { return b.step("listers", b.listed) }); err != nil {
			return err
		}
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
	if err := b.makeSource(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unix.Unmount(b.source(), unix.MNT_DETACH)) }()
	if b.driver, err = install(b.root, b.settings.binary); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.driver.uninstall()) }()
	return do()
}

// source and target are what the floor binds, and on what.
func (b *bench) source() string { return filepath.Join(b.root, "source") }
func (b *bench) target() string { return filepath.Join(b.root, "target") }

// makeSource makes them. The source is a mount of its own, as a volume's is: to bind a
// directory of a mount that has thousands of others on it costs milliseconds more
// (fs/namespace.c, has_locked_children).
func (b *bench) makeSource() error {
	if err := errors.Join(os.Mkdir(b.source(), 0o755), os.Mkdir(b.target(), 0o755)); err != nil {
		return err
	}
	return unix.Mount(b.source(), b.source(), "", unix.MS_BIND, "")
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
