package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// A hammer is a process of another pod, whose threads read a volume without
// pause. It runs until its input ends, and prints how much it did.
type hammer struct {
	input  io.Closer
	output bytes.Buffer
	ended  chan error
}

// hammered is the pod whose volume is.
const hammered = "5ca1ab1e-0000-4000-8000-000000000032"

// hammerThreads are more than the daemon serves at a time, by far.
const hammerThreads = 32

// runHammer is the process.
func runHammer(s settings) int {
	report := newReport(s)
	var all []*reader
	for i := range hammerThreads {
		all = append(all, &reader{name: fmt.Sprintf("hammering thread %d", i+1), operations: fileOperations(s.volume)})
	}
	readers := startReaders(all, report)
	_, _ = io.Copy(io.Discard, os.Stdin)
	if err := readers.stop(endTimeout); err != nil {
		report.violation("%v", err)
	}
	report.reading(readers)
	fmt.Println(report.operations)
	if report.violations > 0 {
		return 1
	}
	return 0
}

func (t *trial) startHammer(volume string) (*hammer, error) {
	cmd := exec.Command("/proc/self/exe", "hammer", "--volume", volume,
		"--eintr-allowed="+strconv.FormatBool(t.eintrAllowed), "--slow", strconv.Itoa(t.slow))
	h := &hammer{ended: make(chan error, 1)}
	cmd.Stdout, cmd.Stderr = &h.output, os.Stderr
	input, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	h.input = input
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	go func() { h.ended <- cmd.Wait() }()
	return h, nil
}

// stop ends the process and returns the number of its operations. Any error of
// one of them is an error here.
func (h *hammer) stop() (operations int, err error) {
	h.input.Close()
	select {
	case err = <-h.ended:
	case <-time.After(2 * endTimeout):
		return 0, errors.New("a process that hammers does not end")
	}
	if err != nil {
		return 0, fmt.Errorf("a process that hammers: %w", err)
	}
	return strconv.Atoi(strings.TrimSpace(h.output.String()))
}
