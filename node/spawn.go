package node

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// ServeVerb is the subcommand that runs Serve. It is not for people.
const ServeVerb = "serve"

// The daemon's descriptors; the package comment says what they are.
const (
	deviceFD = 3
	readyFD  = 4
	lockFD   = 5
)

const readyWord = "ready"

// spawn starts the daemon on the device and returns when it serves.
func (n Node) spawn(device int) error {
	ready, daemonsEnd, err := os.Pipe()
	if err != nil {
		return err
	}
	defer ready.Close()
	process, err := n.exec(device, daemonsEnd)
	daemonsEnd.Close()
	if err != nil {
		return fmt.Errorf("start the daemon: %w", err)
	}
	if err := awaitReady(ready, patience); err != nil {
		process.Kill()
		process.Wait()
		return fmt.Errorf("start the daemon: %w", err)
	}
	// It outlives this process, and init will reap it.
	return process.Release()
}

// exec executes this process's own binary as the daemon: in a session of its
// own, in /, with /dev/null on descriptors 0 to 2 and nothing else of ours. In
// particular it must not hold the pipe that the kubelet reads to its end.
func (n Node) exec(device int, ready *os.File) (*os.Process, error) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer null.Close()
	lock, err := os.OpenFile(n.path("daemon.lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	defer lock.Close()
	if err := closeOnExec(); err != nil {
		return nil, err
	}
	duplicate, err := unix.FcntlInt(uintptr(device), unix.F_DUPFD_CLOEXEC, lockFD+1)
	if err != nil {
		return nil, err
	}
	fuse := os.NewFile(uintptr(duplicate), "/dev/fuse")
	defer fuse.Close()
	return os.StartProcess("/proc/self/exe", []string{os.Args[0], ServeVerb, "--driver", n.Driver.String()}, &os.ProcAttr{
		Dir:   "/",
		Env:   []string{}, // the kubelet's may hold secrets
		Files: []*os.File{null, null, null, deviceFD: fuse, readyFD: ready, lockFD: lock},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
}

// closeOnExec marks every descriptor above 2, also those that this process was
// given without its knowledge.
func closeOnExec() error {
	names, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return err
	}
	for _, name := range names {
		if fd, err := strconv.Atoi(name.Name()); err == nil && fd > 2 {
			unix.CloseOnExec(fd)
		}
	}
	return nil
}

// awaitReady waits for the daemon's word.
func awaitReady(ready *os.File, limit time.Duration) error {
	if err := ready.SetReadDeadline(time.Now().Add(limit)); err != nil {
		return err
	}
	word, err := io.ReadAll(ready)
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return fmt.Errorf("it was not ready within %v", limit)
	case err != nil:
		return err
	case len(word) == 0:
		return errors.New("it died before it was ready")
	case string(word) != readyWord:
		return errors.New(strings.ToValidUTF8(string(word), "?"))
	}
	return nil
}
