package proc

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// ErrNoEnd says that a program had not ended when its time was up. It was killed.
var ErrNoEnd = errors.New("no end")

// maxOutput is how much of a process's output is kept, in bytes.
const maxOutput = 1 << 16

// Run executes a program in / and with an empty environment, and returns what it prints on
// both streams. The first argument is its name; an error tells the second one, which must be of
// our own, and none after it. An exit status other than 0 is an error with what was printed.
//
// It is called on a thread of [OnThread] to have the program in that thread's namespaces.
func Run(limit time.Duration, path string, argv ...string) ([]byte, error) {
	what := strings.Join(append([]string{path}, argv[1:min(2, len(argv))]...), " ")
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	process, err := start(path, argv, w)
	w.Close()
	if err != nil {
		return nil, err
	}
	timesUp := make(chan struct{})
	timer := time.AfterFunc(limit, func() {
		defer close(timesUp)
		_ = process.Kill()
		_ = r.SetReadDeadline(time.Now()) // a child of its own may hold the pipe
	})
	output, _ := io.ReadAll(io.LimitReader(r, maxOutput))
	_, _ = io.Copy(io.Discard, r) // or the process waits for a reader
	ended := make(chan error, 1)
	go func() { // not even SIGKILL ends a process that waits in the kernel
		state, err := process.Wait()
		if err == nil && !state.Success() {
			err = fmt.Errorf("%s: %v: %s", what, state, strings.TrimSpace(string(output)))
		}
		ended <- err
	}()
	select {
	case err := <-ended:
		if timer.Stop() {
			return output, err
		}
	case <-timesUp:
	}
	return nil, fmt.Errorf("%s: %w after %v", what, ErrNoEnd, limit)
}

// start starts a program whose file may have been written just now.
func start(path string, argv []string, output *os.File) (*os.Process, error) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer null.Close()
	for try := 0; ; try++ {
		process, err := os.StartProcess(path, argv, &os.ProcAttr{
			Dir: "/", Env: []string{}, Files: []*os.File{null, output, output},
		})
		// A process that was forked meanwhile has the descriptor that the file was
		// written with until it executes something (go.dev/issue/22315).
		if !errors.Is(err, unix.ETXTBSY) || try == 100 {
			return process, err
		}
		time.Sleep(10 * time.Millisecond)
	}
}
