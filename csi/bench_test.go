package csi_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// What a publication costs beside the call-out that it executes, and the plugin's memory
// afterwards. Measures, and judges nothing: go test -run=^$ -bench=. -benchtime=1000x ./csi

func BenchmarkPublish(b *testing.B) {
	w := place(b)
	p := w.start()
	targets := w.targets(b)
	w.mustPublish(w.target(podUID, "first"))
	b.Run("publish", func(b *testing.B) {
		for i := range b.N {
			w.mustPublish(targets(i))
		}
	})
	b.Run("republish", func(b *testing.B) {
		for i := range b.N {
			w.mustPublish(targets(i))
		}
		b.ReportMetric(float64(private(b, p.Process.Pid)), "KiB-private")
	})
	b.Run("unpublish", func(b *testing.B) {
		for i := range b.N {
			w.mustUnpublish(targets(i))
		}
		b.ReportMetric(float64(private(b, p.Process.Pid)), "KiB-private")
	})
}

func BenchmarkCallOut(b *testing.B) {
	w := place(b)
	targets := w.targets(b)
	call := func(args ...string) {
		output, err := exec.Command(w.binary, args...).CombinedOutput()
		var answer struct{ Status string }
		if err := json.Unmarshal(output, &answer); err != nil || answer.Status != "Success" {
			b.Fatalf("%v: %s", err, output)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	options := fmt.Sprintf(`{"kubernetes.io/pod.uid":%q,"kubernetes.io/pod.name":"web-0","kubernetes.io/pod.namespace":"shop"}`, podUID)
	mount := func(target string) {
		if err := os.Mkdir(target, 0o750); err != nil && !os.IsExist(err) {
			b.Fatal(err)
		}
		call("mount", target, options)
	}
	mount(w.target(podUID, "first"))
	b.Run("mount", func(b *testing.B) {
		for i := range b.N {
			mount(targets(i))
		}
	})
	b.Run("mount-again", func(b *testing.B) {
		for i := range b.N {
			mount(targets(i))
		}
	})
	b.Run("unmount", func(b *testing.B) {
		for i := range b.N {
			call("unmount", targets(i))
			if err := unix.Rmdir(targets(i)); err != nil && err != unix.ENOENT {
				b.Fatal(err)
			}
		}
	})
}

// targets returns a function that returns the target with a number.
func (w *world) targets(b *testing.B) func(i int) string {
	return func(i int) string { return w.target(podUID, "info-"+strconv.Itoa(i)) }
}

// private is the memory that a process shares with none, in KiB (man 5 proc_pid_smaps).
func private(b *testing.B, pid int) (sum int) {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "smaps_rollup"))
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); strings.HasPrefix(line, "Private_") {
			n, _ := strconv.Atoi(fields[1])
			sum += n
		}
	}
	return sum
}
