package main

import (
	"fmt"
	"path/filepath"
	"time"
)

// memoryOf is the memory, in KiB, that processes have for themselves (USS), and with
// their share of what they have in common with others (PSS).
func memoryOf(pids []int) (uss, pss float64, err error) {
	for _, pid := range pids {
		rollup := fmt.Sprintf("/proc/%d/smaps_rollup", pid)
		private, err := fieldsOf(rollup, "Private_Clean:", "Private_Dirty:")
		if err != nil {
			return 0, 0, err
		}
		share, err := fieldsOf(rollup, "Pss:")
		if err != nil {
			return 0, 0, err
		}
		uss, pss = uss+float64(private), pss+float64(share)
	}
	return uss, pss, nil
}

// memory measures at one number of volumes: at rest, after a load of every file of
// every volume and of many threads, and when that is some time ago.
func (b *bench) memory(volumes int) error {
	pids, err := b.driver.pids()
	if err != nil {
		return err
	}
	note := func(when string) error {
		uss, pss, err := memoryOf(pids)
		b.figures.add(memoryName(volumes, when, "uss"), uss)
		b.figures.add(memoryName(volumes, when, "pss"), pss)
		return err
	}
	if err := b.sleep(time.Second); err != nil {
		return err
	}
	if err := note("rest"); err != nil {
		return err
	}
	if err := b.readAll(volumes); err != nil {
		return err
	}
	if _, err := b.runClient(filepath.Join(b.driver.volumeOf(1), "pod"), 32, b.settings.load, anywhere); err != nil {
		return err
	}
	if err := note("load"); err != nil {
		return err
	}
	if err := b.sleep(b.settings.idle); err != nil {
		return err
	}
	return note("idle")
}

// readAll reads every file of every volume, and so makes them known to the kernel.
func (b *bench) readAll(volumes int) error {
	buffer := make([]byte, 256)
	for pod := 1; pod <= volumes; pod++ {
		for _, file := range files {
			path := append([]byte(filepath.Join(b.driver.volumeOf(pod), file)), 0)
			if err := readOnce(path, buffer); err != nil {
				return fmt.Errorf("%s of pod %d: %w", file, pod, err)
			}
		}
	}
	return nil
}
