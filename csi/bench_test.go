package csi_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// What a request costs beside the call-out that it executes, by turns, and the plugin's memory
// afterwards. It measures, and judges nothing:
//
//	go test -run=^$ -bench=. -benchtime=1000x ./csi
func BenchmarkRequestsBesideCallOuts(b *testing.B) {
	w := place(b)
	p := w.start()
	options := fmt.Sprintf(`{"kubernetes.io/pod.uid":%q,"kubernetes.io/pod.name":"web-0","kubernetes.io/pod.namespace":"shop",`+
		`"kubernetes.io/serviceAccount.name":"default","kubernetes.io/pvOrVolumeName":"info"}`, podUID)
	call := func(args ...string) {
		output, err := exec.Command(w.binary, args...).Output()
		var answer struct{ Status string }
		if err == nil {
			err = json.Unmarshal(output, &answer)
		}
		if err != nil || answer.Status != "Success" {
			b.Fatalf("%v: %s", err, output)
		}
	}
	w.mustPublish(w.target(podUID, "first")) // starts the daemon
	steps := []struct {
		name string
		do   func(target string)
	}{
		{"publish", func(target string) { w.mustPublish(target) }},
		{"republish", func(target string) { w.mustPublish(target) }},
		{"unpublish", w.mustUnpublish},
		{"mount", func(target string) {
			if err := os.Mkdir(target, 0o750); err != nil {
				b.Fatal(err)
			}
			call("mount", target, options)
		}},
		{"mount-again", func(target string) { call("mount", target, options) }},
		{"unmount", func(target string) {
			call("unmount", target)
			if err := os.Remove(target); err != nil {
				b.Fatal(err)
			}
		}},
	}
	took := make([][]time.Duration, len(steps))
	b.ResetTimer()
	for i := range b.N {
		target := w.target(podUID, "info-"+strconv.Itoa(i%100))
		for s, step := range steps {
			begun := time.Now()
			step.do(target)
			took[s] = append(took[s], time.Since(begun))
		}
	}
	b.StopTimer()
	for s, step := range steps {
		slices.Sort(took[s])
		b.ReportMetric(float64(took[s][len(took[s])/2].Microseconds()), "µs/"+step.name)
	}
	b.ReportMetric(float64(inMemory(b, p.Process.Pid, "Private_")), "KiB-private")
	b.ReportMetric(float64(inMemory(b, p.Process.Pid, "Anonymous:")), "KiB-anonymous")
}

// inMemory is the sum of lines of smaps_rollup, in KiB (man 5 proc_pid_smaps).
func inMemory(b *testing.B, pid int, line string) (sum int) {
	text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "smaps_rollup"))
	if err != nil {
		b.Fatal(err)
	}
	for text := range strings.Lines(string(text)) {
		if strings.HasPrefix(text, line) && !strings.HasPrefix(text, "Private_Hugetlb") {
			n, _ := strconv.Atoi(strings.Fields(text)[1])
			sum += n
		}
	}
	return sum
}
