// Soak is a long run of all that is here, side by side: volumes of pod-info-fuse come and go by
// FlexVolume and by CSI (chaos soak, on a node of its own, as the CSI plugin mounts in the
// namespaces of process 1), and pods come and go whose volumes are served by a program of theirs,
// which is killed now and then, by pod-fuse (podchaos soak). The readers of those that stay read
// all the time.
//
// Both take a sixth of the time, and a minute at most, to disturb the processes of the drivers.
// Then nobody does, and the run fails if one of the processes is replaced, or grows; if a reader
// sees an error; if a call-out or a request fails; and if anything is left. There are pauses
// between what the readers do, or how long they wait would be up to each other.
//
// With --plot, it draws what was seen since then: memory, descriptors, and how long others waited.
// The picture says which run it is of.
//
// It runs what "make soak" builds, from the root of the repository, and needs root.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/bench/machine"
	"example.com/pod-info-fuse/e2e/internal/steady"
	"example.com/pod-info-fuse/e2e/nodeplugin"
)

func main() {
	if err := run(os.Args[1:]); errors.Is(err, flag.ErrHelp) {
		os.Exit(2)
	} else if err != nil {
		fmt.Fprintln(os.Stderr, "FAILED: soak:", err)
		os.Exit(1)
	}
}

func run(args []string) (err error) {
	flags := flag.NewFlagSet("soak", flag.ContinueOnError)
	duration := flags.String("duration", "10m", "how long it takes")
	plot := flags.String("plot", "", "the `FILE` to draw what was seen to, as SVG")
	if err := flags.Parse(args); err != nil {
		return err
	}
	length, err := time.ParseDuration(*duration)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "soak-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGINT, unix.SIGTERM)
	defer stop()
	began, files, commands := time.Now(), []string{}, map[string]*exec.Cmd{}
	for name, command := range parts {
		file := filepath.Join(dir, name)
		files = append(files, file)
		commands[name] = command("--duration", *duration, "--samples", file)
	}
	cpu := watchCPU(ctx, steady.Every(length))
	failed := runAll(ctx, commands)
	if *plot == "" {
		return failed
	}
	lines, err := readAll(files)
	if err != nil {
		return errors.Join(failed, err)
	}
	r := seen{at: began, command: "make soak SOAK=" + *duration, machine: fmt.Sprintf("%s, %d CPUs, %s", machine.Kernel(), runtime.NumCPU(), machine.Processor()), lines: lines, busy: cpu.busy(), failed: failed != nil}
	picture, err := r.picture()
	if err == nil {
		err = os.WriteFile(*plot, []byte(picture), 0o644)
	}
	return errors.Join(failed, err)
}

// parts are what runs side by side. Both drivers are builds that die of a system call that is only
// denied otherwise.
var parts = map[string]func(more ...string) *exec.Cmd{
	"pod-info-fuse": func(more ...string) *exec.Cmd {
		return nodeplugin.Command(append([]string{"e2e/bin/chaos", "soak", "--driver-binary", "e2e/bin/strict",
			"--other-binary", "e2e/bin/other", "--csi-binary", "bin/pod-info-fuse-csi", "--pause", "20ms"}, more...)...)
	},
	"pod-fuse": func(more ...string) *exec.Cmd {
		return exec.Command("e2e/bin/podchaos", append([]string{"soak", "--driver-binary", "e2e/bin/pod-fuse-strict",
			"--other-binary", "e2e/bin/pod-fuse-other", "--threads", "4", "--pause", "20ms"}, more...)...)
	},
}

// runAll runs commands side by side. One that fails stops no other.
func runAll(ctx context.Context, commands map[string]*exec.Cmd) error {
	var ended sync.WaitGroup
	var mu sync.Mutex // guards failed, and the output
	var failed error
	for name, cmd := range commands {
		// What they say while they run are violations, and goes to one place; the figures come at
		// the end.
		cmd.Stderr = os.Stderr
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // to be told once, also of Ctrl-C
		ended.Go(func() {
			output, err := outputOf(ctx, cmd)
			mu.Lock()
			defer mu.Unlock()
			fmt.Printf("=== %s\n%s", name, output)
			if err != nil {
				failed = errors.Join(failed, fmt.Errorf("%s: %w", name, err))
			}
		})
	}
	ended.Wait()
	return failed
}

// outputOf runs a command. When the context ends, it and its descendants are told, and clean up.
func outputOf(ctx context.Context, cmd *exec.Cmd) ([]byte, error) {
	var output bytes.Buffer
	cmd.Stdout = &output
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	var err error
	select {
	case err = <-ended:
	case <-ctx.Done():
		_ = unix.Kill(-cmd.Process.Pid, unix.SIGINT)
		err = errors.Join(context.Cause(ctx), <-ended)
	}
	return output.Bytes(), err
}

func readAll(files []string) (lines []steady.Line, err error) {
	for _, name := range files {
		file, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		defer file.Close()
		more, err := steady.Read(file)
		if err != nil {
			return nil, err
		}
		lines = append(lines, more...)
	}
	return lines, nil
}
