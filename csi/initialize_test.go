package csi_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	spec "github.com/container-storage-interface/spec/lib/go/csi"

	"example.com/pod-info-fuse/csi"
)

// A driver that is new on the node is called with init, once: nobody else lets a new version
// take over where there is no FlexVolume.
func TestInitIsCalledOfANewDriver(t *testing.T) {
	w := place(t)
	calls := filepath.Join(w.kubelet, "calls")
	installs := func() {
		t.Helper()
		next := w.binary + ".next"
		script := fmt.Sprintf("#!/bin/sh\necho $1 >>%s\necho '{\"status\":\"Success\"}'\n", calls)
		if err := os.WriteFile(next, []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(next, w.binary); err != nil {
			t.Fatal(err)
		}
	}
	installs()
	serveIn(w)
	probes := func(want string) {
		t.Helper()
		for range 3 {
			if _, err := w.Probe(w.ctx(), &spec.ProbeRequest{}); err != nil {
				t.Fatal(err)
			}
		}
		called, _ := os.ReadFile(calls)
		if got := strings.Join(strings.Fields(string(called)), " "); got != want {
			t.Errorf("called were %q, want %q", got, want)
		}
	}
	probes("init")
	installs()
	probes("init init")
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
