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

// startOther starts a second pod of pod-fuse, whose program nobody harms, and reads it at leisure,
// if that was asked for: no error is allowed, also of what is open. To measure, there must be none.
func (t *trial) startOther() (stop func()) {
	if t.beside == "" || t.verb == "measure" {
		return func() {}
	}
	calm := *t
	calm.threads, calm.pause = 2, 5*time.Millisecond
	p, err := calm.newPod(programs[0])
	if err != nil {
		t.report.check(err)
		return func() {}
	}
	s, r, err := calm.startPod(p, programs[0], byFusermount)
	if err != nil {
		return func() { t.report.check(errors.Join(err, s.stop())) }
	}
	t.untouched = r
	began := now()
	return func() {
		seen, err := r.stop()
		t.report.check(errors.Join(err, s.stop()))
		_, longest := r.outage(began, now())
		t.report.note("pod-fuse, beside: %d operations, at most %s ms", seen.Operations, ms(longest))
		if len(seen.Paths)+len(seen.Open)+len(seen.Repeated) > 0 || longest > promptly() {
			t.report.violation("pod-fuse, beside: %s; %s; %s; at most %s ms", counts(seen.Paths), counts(seen.Open), counts(seen.Repeated), ms(longest))
		}
	}
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
