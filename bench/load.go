package main

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"time"
)

// A load is a process that computes half of the time, if it is let. Beside one, the kernel ends the
// waits of servers and readers in other ways: who is woken goes on later, or elsewhere.
type load struct {
	process *exec.Cmd
	input   io.Closer
}

// burst is how long it computes, and how long it pauses then.
const burst = 50 * time.Millisecond

func startLoad() (*load, error) {
	l := &load{process: inSession(exec.Command("/proc/self/exe", "load"))}
	input, err := l.process.StdinPipe()
	if err != nil {
		return nil, err
	}
	l.input, l.process.Stderr = input, os.Stderr
	return l, l.process.Start()
}

func (l *load) stop() error { return errors.Join(l.input.Close(), l.process.Wait()) }

// compute is the process. It ends with its input.
func compute() error {
	go func() {
		for ; ; time.Sleep(burst) {
			for began := time.Now(); time.Since(began) < burst; {
			}
		}
	}()
	_, err := io.Copy(io.Discard, os.Stdin)
	return err
}

// rounds does something as often as it is said, every so many times beside a load.
func (b *bench) rounds(number int, do func() error) error {
	for i := range number {
		if err := b.round(b.settings.loaded > 0 && (i+1)%b.settings.loaded == 0, do); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) round(loaded bool, do func() error) (err error) {
	if loaded {
		l, failed := startLoad()
		if failed != nil {
			return failed
		}
		defer func() { err = errors.Join(err, l.stop()) }()
	}
	return do()
}
