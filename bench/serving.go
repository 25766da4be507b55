package main

import (
	"errors"
	"path/filepath"
)

// serving measures all that needs servers: the driver with two volumes, and what it is
// compared with. It is done more than once: a process has luck of its own with how its
// threads fall together, for as long as it lives.
func (b *bench) serving() (err error) {
	var started []*server
	defer func() {
		for _, s := range started {
			err = errors.Join(err, s.stop())
		}
	}()
	start := func(s *server, failed error) *server {
		if failed != nil {
			err = errors.Join(err, failed)
		} else {
			started = append(started, s)
		}
		return s
	}
	driver := start(b.startDriver())
	hello := start(b.startC("hello_ll", "hello", b.other("hello_ll"), "-f", "-o", "allow_other"))
	another := start(b.startC("hello_ll 2", "hello", b.other("hello_ll"), "-f", "-o", "allow_other"))
	lxcfs := start(b.startLXCFS())
	goFuse := start(b.startOwn("go-fuse"))
	if err != nil {
		return err
	}
	b.say("reads")
	targets := []target{{hello, "hello"}, {lxcfs, "uptime"}}
	for _, file := range files {
		targets = append(targets, target{driver, file}, target{goFuse, file})
	}
	if err := b.reads(targets); err != nil {
		return err
	}
	b.say("neighbours")
	if err := b.neighbours(
		pair{"driver", driver.files["pod"], filepath.Join(b.driver.volumeOf(2), "pod")},
		pair{"hello_ll", hello.files["hello"], another.files["hello"]},
	); err != nil {
		return err
	}
	uss, pss, err := memoryOf(hello.pids)
	b.figures.add("memory/hello_ll/uss", uss)
	b.figures.add("memory/hello_ll/pss", pss)
	return err
}

func (b *bench) other(program string) string { return filepath.Join(b.settings.others, program) }

// startDriver mounts two volumes. The server is the first.
func (b *bench) startDriver() (*server, error) {
	for _, pod := range []int{1, 2} {
		if _, err := b.driver.mount(pod); err != nil {
			return nil, err
		}
	}
	pids, err := b.driver.pids()
	if err != nil {
		return nil, err
	}
	s := &server{name: "driver", pids: pids, files: map[string]string{}}
	for _, file := range files {
		s.files[file] = filepath.Join(b.driver.volumeOf(1), file)
	}
	return s, nil
}
