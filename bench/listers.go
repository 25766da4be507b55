package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"example.com/pod-info-fuse/internal/facts"
)

// listers is how many threads list.
const listers = 8

// victim is a file of another pod's volume.
type victim struct {
	name string // in figures
	file string
	of   string // what it is
}

var victims = []victim{
	{"pod, listers", "pod", "`pod`"},
	{"fact, listers", "node.fact-0", "a fact"},
}

// listed measures how long the one reader of a file waits, alone and while another pod lists
// its volume, which has as many facts as are allowed.
func (b *bench) listed() error {
	if err := b.makeFacts(facts.MaxEntries); err != nil {
		return err
	}
	if _, err := b.startDriver(); err != nil {
		return err
	}
	return b.rounds(b.settings.nextRounds, func() error {
		for _, v := range victims {
			reader := task{file: filepath.Join(b.driver.volumeOf(1), v.file), threads: 1, cpu: anywhere, pause: time.Millisecond}
			list := task{file: b.driver.volumeOf(2), threads: listers, cpu: anywhere, list: true}
			if err := b.victim(v.name, reader, list); err != nil {
				return err
			}
		}
		return nil
	})
}

// makeFacts makes a directory of facts, and has the driver, which nobody has called yet, take
// that for its own.
func (b *bench) makeFacts(number int) error {
	dir := filepath.Join(b.root, "facts")
	err := errors.Join(os.Mkdir(dir, 0o755),
		os.WriteFile(filepath.Join(filepath.Dir(b.driver.binary), "config.json"), fmt.Appendf(nil, `{"factsDir": %q}`, dir), 0o644))
	for i := 0; i < number && err == nil; i++ {
		err = os.WriteFile(filepath.Join(dir, fmt.Sprint("fact-", i)), []byte("eu-central-1a\n"), 0o644)
	}
	return err
}
