package main

import (
	"errors"
	"fmt"
)

// load are the readers of a trial: some of files, and one of each other kind.
func (t *trial) load() []*reader {
	if t.program != podInfo {
		return t.otherLoad()
	}
	var all []*reader
	volume := t.driver.volume
	for i := range t.settings.readers {
		all = append(all, &reader{name: fmt.Sprintf("reader %d", i+1), operations: fileOperations(volume), took: t.flex.reads})
	}
	all = append(all,
		&reader{name: "the reader of an open file", operations: openFileOperations(volume)},
		&reader{name: "the lister", operations: directoryOperations(volume)},
		&reader{name: "the reader of a fact", operations: factOperations(volume)},
		&reader{name: "the operator", operations: t.driver.operatorOperations(), apart: true},
		&reader{name: "the starter of programs", operations: sizeOperations(volume), apart: true},
		&reader{name: "the other starter of programs", operations: sizeOperations(volume), apart: true})
	if t.verb == "kill" {
		all = append(all, &reader{name: "the first to look", operations: t.driver.newVolumeOperations(), apart: true})
	}
	if t.verb == "soak" {
		all = append(all,
			&reader{name: "the kubelet", operations: t.podOperations(), apart: true},
			&reader{name: "the administrator", operations: t.driver.statusOperations(), apart: true})
		all = append(all, t.csiLoad()...)
	}
	return all
}

// podOperations are a pod that comes and goes, another each time.
func (t *trial) podOperations() []operation {
	pods := 0
	return []operation{{"mount, read and unmount a volume", func() error {
		pods++
		volume := t.driver.volumeOf(fmt.Sprintf("00000000-0000-4000-8000-%012d", pods))
		if err := t.flex.mounts.Of(func() error { return t.driver.mount(volume) }); err != nil {
			return err
		}
		failed := readAll(volume)
		return errors.Join(failed, t.flex.unmounts.Of(func() error { return t.driver.unmount(volume) }))
	}}}
}

// readAll reads each file of a volume.
func readAll(volume string) (failed error) {
	for _, o := range fileOperations(volume) {
		if err := o.do(); err != nil {
			failed = errors.Join(failed, fmt.Errorf("%s: %w", o.name, err))
		}
	}
	return failed
}

// statusOperations ask the driver for its status.
func (d *driver) statusOperations() []operation {
	return []operation{
		{"ask for the status as a table", func() error {
			_, err := d.execute("status")
			return err
		}},
		{"ask for the status as JSON", func() error {
			_, err := d.status()
			return err
		}},
	}
}

// otherLoad are the readers of another program's file.
func (t *trial) otherLoad() (all []*reader) {
	for i := range t.settings.readers {
		all = append(all, &reader{name: fmt.Sprintf("reader %d", i+1), operations: otherOperations(t.driver.volume, t.file)})
	}
	return append(all,
		&reader{name: "the reader of an open file", operations: otherOpenOperations(t.driver.volume, t.file)},
		&reader{name: "the lister", operations: otherListOperations(t.driver.volume, t.file)})
}
