package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// reading is what a client reports: how much it did, and how long that took. Times
// are in microseconds.
type reading struct {
	Operations int
	Seconds    float64
	P50, P99   float64

	Waits, Switches int64 // of its threads: voluntary context switches, and all
}

func init() {
	// A client with one thread is to read in its first, as most programs do: which
	// process another thread is of, a server has to find out.
	if len(os.Args) > 1 && os.Args[1] == "client" {
		runtime.LockOSThread()
	}
}

// client opens, reads and closes a file, or lists a directory, without pause, with some threads,
// and prints a reading. It is a process of its own, so that it can be pinned.
//
// It is to wait for the server and for nothing else. So each thread has a processor
// of Go's to itself, for good: the system calls are raw ones, which keep it, nothing
// collects garbage, and asyncpreemptoff, which the caller sets, keeps the runtime
// from sending signals, each of which would interrupt a request.
func client(args []string) error {
	flags := flag.NewFlagSet("client", flag.ContinueOnError)
	file := flags.String("file", "", "")
	isDirectory := flags.Bool("list", false, "")
	threads := flags.Int("threads", 1, "")
	pause := flags.Duration("pause", 0, "")
	length := flags.Duration("length", time.Second, "")
	if err := flags.Parse(args); err != nil {
		return err
	}
	once, size := readOnce, 256
	if *isDirectory {
		once, size = listOnce, 32<<10 // as C libraries do
	}
	debug.SetGCPercent(-1)
	runtime.GOMAXPROCS(*threads)
	took := make([][]float64, *threads)
	failures := make([]error, *threads)
	waitsBefore, switchesBefore := ownSwitches()
	began := time.Now()
	var others sync.WaitGroup
	for i := range *threads - 1 {
		others.Go(func() { took[i+1], failures[i+1] = repeat(once, *file, size, *pause, began.Add(*length)) })
	}
	took[0], failures[0] = repeat(once, *file, size, *pause, began.Add(*length))
	others.Wait()
	seconds := time.Since(began).Seconds()
	if err := errors.Join(failures...); err != nil {
		return err
	}
	together := slices.Concat(took...)
	slices.Sort(together)
	n := len(together)
	waits, switches := ownSwitches()
	return json.NewEncoder(os.Stdout).Encode(reading{
		Operations: n, Seconds: seconds, P50: together[n/2], P99: together[n*99/100],
		Waits: waits - waitsBefore, Switches: switches - switchesBefore,
	})
}

func repeat(once func(path, buffer []byte) error, file string, size int, pause time.Duration, end time.Time) ([]float64, error) {
	path, err := unix.ByteSliceFromString(file)
	if err != nil {
		return nil, err
	}
	took := make([]float64, 0, 1<<16)
	buffer := make([]byte, size)
	for {
		began := time.Now()
		if err := once(path, buffer); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		now := time.Now()
		took = append(took, float64(now.Sub(began))/float64(time.Microsecond))
		if now.After(end) {
			return took, nil
		}
		if pause > 0 {
			time.Sleep(pause)
		}
	}
}

func ownSwitches() (waits, all int64) {
	var usage unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &usage) != nil {
		return 0, 0
	}
	return usage.Nvcsw, usage.Nvcsw + usage.Nivcsw
}
