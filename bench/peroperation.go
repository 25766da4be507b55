package main

import "errors"

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
	return b.reads(targets)
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
