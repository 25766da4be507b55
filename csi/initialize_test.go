package csi_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	spec "github.com/container-storage-interface/spec/lib/go/csi"

	"example.com/pod-info-fuse/csi"
)

// A driver that is new on the node is called with init, once: nobody else lets a new version
// take over where there is no FlexVolume.
func TestInitIsCalledOfANewDriver(t *testing.T) {
	w := place(t)
	w.installs("")
	serveIn(w)
	w.probes()
	w.called("init")
	w.installs("")
	w.probes()
	w.called("init init")
	target := w.target(podUID, "info")
	w.installs("")
	w.mustPublish(target)
	w.mustUnpublish(target) // a pod begins and ends, whatever a new version does
	w.called("init init mount unmount")
}

// The node may have been short of something when a version could not take over.
func TestInitIsRepeated(t *testing.T) {
	w := place(t)
	w.shortens(csi.InitAgain, time.Millisecond)
	w.installs("[ $1 != init ] || exit 3")
	serveIn(w)
	w.probes()
	w.called("init init init")
	if got := w.log.with("exit status 3"); got != 3 {
		t.Errorf("it logs %q", w.log.lines)
	}
}

// The kubelet knows the plugin, and pods can end, while a new version takes its time.
func TestNobodyElseWaitsForInit(t *testing.T) {
	w := place(t)
	ended := filepath.Join(w.kubelet, "ended")
	w.installs(fmt.Sprintf("[ $1 != init ] || until [ -e %s ]; do sleep .01; done", ended))
	serveIn(w)
	eventually(t, "the plugin offers itself", func() bool { _, err := os.Lstat(w.registration()); return err == nil })
	probed := make(chan error)
	go func() {
		_, err := w.Probe(w.ctx(), &spec.ProbeRequest{})
		probed <- err
	}()
	eventually(t, "init is called", func() bool { _, err := os.Lstat(w.calls()); return err == nil })
	target := w.target(podUID, "info")
	w.mustPublish(target)
	w.mustUnpublish(target)
	select {
	case err := <-probed:
		t.Fatalf("init has ended: %v", err)
	default:
	}
	if err := os.WriteFile(ended, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := <-probed; err != nil {
		t.Error(err)
	}
}

// calls is the file that has the call-outs of the driver that installs makes.
func (w *world) calls() string { return filepath.Join(w.kubelet, "calls") }

// installs puts a driver in the place of the one that is there, which does nothing but what a
// script says.
func (w *world) installs(script string) {
	w.t.Helper()
	next := w.binary + ".next"
	script = fmt.Sprintf("#!/bin/sh\necho $1 >>%s\n%s\necho '{\"status\":\"Success\"}'\n", w.calls(), script)
	if err := os.WriteFile(next, []byte(script), 0o755); err != nil {
		w.t.Fatal(err)
	}
	if err := os.Rename(next, w.binary); err != nil {
		w.t.Fatal(err)
	}
}

// probes asks three times whether the plugin is ready, as a kubelet does again and again.
func (w *world) probes() {
	w.t.Helper()
	for range 3 {
		if _, err := w.Probe(w.ctx(), &spec.ProbeRequest{}); err != nil {
			w.t.Fatal(err)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// shortens makes a time of the plugin another one, for the test.
func (w *world) shortens(long *time.Duration, short time.Duration) {
	before := *long
	*long = short
	w.t.Cleanup(func() { *long = before })
}

// called fails unless these call-outs have been called.
func (w *world) called(want string) {
	w.t.Helper()
	called, _ := os.ReadFile(w.calls())
	if got := strings.Join(strings.Fields(string(called)), " "); got != want {
		w.t.Errorf("called were %q, want %q", got, want)
	}
}

// Without a driver, the plugin is not ready; but it lives, and another process of it would have
// no driver either.
func TestAPluginWithoutADriverLives(t *testing.T) {
	w := place(t)
	if err := os.Remove(w.binary); err != nil {
		t.Fatal(err)
	}
	end := serveIn(w)
	if err := csi.Probe(w.ctx(), w.socket, false); err == nil || !strings.Contains(err.Error(), "is not installed on the host") {
		t.Errorf("it is ready: %v", err)
	}
	if err := csi.Probe(w.ctx(), w.socket, true); err != nil {
		t.Errorf("it does not live: %v", err)
	}
	end()
	if err := csi.Probe(w.ctx(), w.socket, true); err == nil {
		t.Error("it lives without a process")
	}
}

// serveIn has the plugin of a node serve in this process, until end is called or the test ends.
func serveIn(w *world) (end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() { ended <- w.plugin.Serve(ctx, w.socket, w.registrationDir()) }()
	end = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			w.t.Errorf("serve: %v", err)
		}
	})
	w.t.Cleanup(end)
	w.connect()
	return end
}
