package main

import (
	"errors"
	"os"
	"path/filepath"
)

// perOperation measures what a read costs, in the daemon, and in a process of ours, which
// can count its allocations.
func (b *bench) perOperation() (err error) {
	driver, err := b.startDriver()
	if err != nil {
		return err
	}
	counted, err := b.startOwn("connection")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, counted.stop()) }()
	var targets []target
	for _, file := range files {
		if err := b.allocations(counted, file); err != nil {
			return err
		}
		targets = append(targets, target{driver, file})
	}
	return errors.Join(b.reads(targets), b.listing(driver))
}

// listing measures how many requests ls -l makes of a volume, and how many context switches of
// the daemon: more, if one of its threads wakes another. On a file system that is not mounted
// read-only, each listing, and each read that the daemon serves, makes the kernel forget the
// time of the last access, and the next stat(2) asks for it (fs/fuse/dir.c,
// fuse_invalidate_atime). What the daemon writes to the kernel before the attributes of pod
// and pod.nodename counts as a reply, too (survive.SizeVarier).
func (b *bench) listing(s *server) (err error) {
	back, err := besideServer(s)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, back()) }()
	dir := filepath.Dir(s.files["pod"])
	var switches series
	for range b.settings.readRounds {
		before, err := countersOf(s.pids)
		if err != nil {
			return err
		}
		const times = 2000
		for range times {
			if err := listLong(dir); err != nil {
				return err
			}
		}
		after, err := countersOf(s.pids)
		if err != nil {
			return err
		}
		b.figures.add("replies ls -l", float64(after.replies-before.replies)/times)
		switches = append(switches, float64(after.switches-before.switches)/times)
	}
	b.figures.add("switches ls -l", switches.quantile(0)) // as the waits of files; see derive
	return nil
}

func listLong(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	paths := []string{dir}
	for _, entry := range entries {
		paths = append(paths, filepath.Join(dir, entry.Name()))
	}
	for _, path := range paths {
		if _, err := os.Lstat(path); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) allocations(s *server, file string) error {
	for range b.settings.readRounds {
		before, err := s.allocated()
		if err != nil {
			return err
		}
		r, err := b.runClient(s.files[file], 1, b.settings.readLength, anywhere)
		if err != nil {
			return err
		}
		after, err := s.allocated()
		if err != nil {
			return err
		}
		b.figures.add("allocations "+file, float64(after-before)/float64(r.Operations))
	}
	return nil
}
