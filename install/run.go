package install

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// maxOutput is the most that is kept of what a process prints, in bytes.
const maxOutput = 1 << 16

// run executes a program without arguments from a user, in / and with an empty
// environment, and returns what it prints on both streams. An exit status other
// than 0 is an error with that text.
func run(limit time.Duration, path string, args ...string) ([]byte, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	process, err := start(path, args, w)
	w.Close()
	if err != nil {
		return nil, err
	}
	timer := time.AfterFunc(limit, func() {
		_ = process.Kill()
		_ = r.SetReadDeadline(time.Now()) // a child of its own may hold the pipe
	})
	output, _ := io.ReadAll(io.LimitReader(r, maxOutput))
	_, _ = io.Copy(io.Discard, r) // or it waits until somebody reads
	state, err := process.Wait()
	if !timer.Stop() {
		return nil, fmt.Errorf("%s %s: no end after %v", path, strings.Join(args, " "), limit)
	}
	if err != nil {
		return nil, err
	}
	if !state.Success() {
		return output, fmt.Errorf("%s %s: %v: %s", path, strings.Join(args, " "), state, strings.TrimSpace(string(output)))
	}
	return output, nil
}

// start starts a program whose file may have been written just now.
func start(path string, args []string, output *os.File) (*os.Process, error) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer null.Close()
	for try := 0; ; try++ {
		process, err := os.StartProcess(path, append([]string{path}, args...), &os.ProcAttr{
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
