package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"
)

// beside is a volume of pod-info-fuse, and its reader: none of this is its business.
type beside struct {
	t      *trial
	driver driver
	volume string
	ended  atomic.Bool
	done   sync.WaitGroup
	read   atomic.Int64
}

const besidePod = "5d0e8c1e-4b9e-4d2c-9a55-0c1c3f3e7b10"

// startBeside mounts and reads, if that was asked for.
func (t *trial) startBeside() *beside {
	b := &beside{t: t}
	if t.beside == "" {
		return b
	}
	var err error
	if b.driver, err = installDriver(t.rig.root, "pod-info-fuse", t.beside); err != nil {
		t.report.violation("install pod-info-fuse: %v", err)
		return b
	}
	b.volume = filepath.Join(t.rig.root, "pods", besidePod, "volumes", filepath.Base(filepath.Dir(b.driver.binary)), "pod-info")
	err = errors.Join(os.MkdirAll(b.volume, 0o750), b.driver.callOut("mount", b.volume,
		`{"kubernetes.io/pod.uid": "`+besidePod+`", "kubernetes.io/pod.name": "beside", "kubernetes.io/pod.namespace": "default"}`))
	if err != nil {
		t.report.violation("%v", err)
		return b
	}
	b.done.Go(func() {
		for !b.ended.Load() {
			text, err := os.ReadFile(filepath.Join(b.volume, "pod.uid"))
			if err == nil && string(text) != besidePod+"\n" {
				err = fmt.Errorf("pod.uid is %q", text)
			}
			if err != nil {
				t.report.violation("pod-info-fuse, beside: %v", err)
			}
			b.read.Add(1)
			time.Sleep(time.Millisecond)
		}
	})
	return b
}

func (b *beside) stop() {
	b.ended.Store(true)
	b.done.Wait()
	if b.driver.binary == "" {
		return
	}
	b.t.report.note("pod-info-fuse, beside: read %d times", b.read.Load())
	b.t.report.check(b.driver.callOut("unmount", b.volume))
	if _, err := b.driver.execute("stop"); err != nil {
		b.t.report.violation("%v", err)
	}
	for _, pid := range b.driver.processes() {
		b.t.report.violation("process %d of pod-info-fuse is left", pid)
		_ = b.driver.signal(pid, 9)
	}
	_ = os.RemoveAll(filepath.Join(b.t.rig.root, "pods", besidePod))
}
