package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// A server is what serves files to be read. Its processes are there for one life.
type server struct {
	name  string
	pids  []int
	files map[string]string // path by name
	point string            // what it is mounted on, if that is ours to unmount

	process *exec.Cmd
	input   io.WriteCloser // of serve
	output  *bufio.Reader
	litter  []string // directories that it makes, and leaves
}

// startC starts a program that serves a directory until that is unmounted.
func (b *bench) startC(name, file, program string, args ...string) (*server, error) {
	point := filepath.Join(b.root, name)
	if err := os.Mkdir(point, 0o755); err != nil {
		return nil, err
	}
	s := &server{name: name, point: point, process: inSession(exec.Command(program, append(args, point)...))}
	s.files = map[string]string{filepath.Base(file): filepath.Join(point, file)}
	s.process.Env = append(os.Environ(), "LD_LIBRARY_PATH="+b.libraries())
	if err := s.process.Start(); err != nil {
		return nil, err
	}
	s.pids = []int{s.process.Process.Pid}
	path := append([]byte(filepath.Join(point, file)), 0)
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		err := readOnce(path, make([]byte, 256))
		if err == nil {
			return s, nil
		}
		if time.Now().After(deadline) {
			return nil, errors.Join(fmt.Errorf("%s serves nothing: %w", name, err), s.stop())
		}
	}
}

// stop ends the server, and its mount.
func (s *server) stop() (err error) {
	if s.process == nil {
		return nil
	}
	if s.input != nil {
		err = s.input.Close()
	} else if err = unix.Unmount(s.point, unix.MNT_DETACH); errors.Is(err, unix.EINVAL) {
		err = nil // it ended by itself
	}
	ended := make(chan error, 1)
	go func() { ended <- s.process.Wait() }()
	select {
	case failed := <-ended:
		err = errors.Join(err, failed)
	case <-time.After(5 * time.Second):
		err = errors.Join(err, fmt.Errorf("%s does not end", s.name), s.process.Process.Kill())
	}
	for _, dir := range s.litter {
		err = errors.Join(err, os.Remove(dir))
	}
	return err
}
