package install

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/flex"
)

// initTime is how long a driver may take to answer init. A test of a driver that hangs
// shortens it.
var initTime = 10 * time.Second

// answers executes the call-out init, as the kubelet will: a binary for another
// machine, or on a file system that executes nothing, must not become the driver.
func (t Target) answers(path string) error {
	// Under this name the driver has nothing on the node. Under its own, init would let it
	// take over.
	name := filepath.Join("/staged~"+t.Driver.File(), t.Driver.File())
	output, err := run(initTime, path, name, "init")
	switch {
	case errors.Is(err, unix.ENOEXEC):
		return fmt.Errorf("%w; the binary is for another architecture", err)
	case errors.Is(err, unix.EACCES):
		return fmt.Errorf("%w; is its file system mounted noexec? Choose another --plugin-dir", err)
	case err != nil:
		return err
	}
	var answer flex.Answer
	if err := json.Unmarshal(output, &answer); err != nil || answer.Status != flex.Success {
		return fmt.Errorf("%s init answers %q; that is not a driver", path, output)
	}
	return nil
}

// maxOutput is how much of a process's output is kept, in bytes.
const maxOutput = 1 << 16

// run executes a program with arguments of our own, none from a user, in / and with an empty
// environment, and returns what it prints on both streams. The first argument is its name. An
// exit status other than 0 is an error with that text.
func run(limit time.Duration, path string, argv ...string) ([]byte, error) {
	what := strings.Join(append([]string{path}, argv[1:]...), " ")
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
	timer := time.AfterFunc(limit, func() {
		_ = process.Kill()
		_ = r.SetReadDeadline(time.Now()) // a child of its own may hold the pipe
	})
	output, _ := io.ReadAll(io.LimitReader(r, maxOutput))
	_, _ = io.Copy(io.Discard, r) // or the process waits for a reader
	state, err := process.Wait()
	if !timer.Stop() {
		return nil, fmt.Errorf("%s: no end after %v", what, limit)
	}
	if err != nil {
		return nil, err
	}
	if !state.Success() {
		return output, fmt.Errorf("%s: %v: %s", what, state, strings.TrimSpace(string(output)))
	}
	return output, nil
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
