package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// A server is what serves files to be read. Its processes are there for the whole run.
type server struct {
	name  string
	pids  []int
	files map[string]string // path by name
	point string            // what it is mounted on, if that is ours to unmount

	process *exec.Cmd
	input   io.WriteCloser // of serve
	output  *bufio.Reader
}

// startC starts a program that serves a directory until that is unmounted.
func (b *bench) startC(name, file, program string, args ...string) (*server, error) {
	point := filepath.Join(b.root, name)
	if err := os.Mkdir(point, 0o755); err != nil {
		return nil, err
	}
	s := &server{name: name, point: point, process: exec.Command(program, append(args, point)...)}
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

// libraries is the directory of the library that lxcfs loads.
func (b *bench) libraries() string {
	found, _ := filepath.Glob(filepath.Join(b.settings.others, "lxcfs/usr/lib/*/lxcfs"))
	return strings.Join(found, ":")
}

// startOwn starts this program as a server of the driver's file system.
func (b *bench) startOwn(how string) (*server, error) {
	dir := filepath.Join(b.root, how)
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, err
	}
	s := &server{name: how, point: filepath.Join(dir, "fs"), process: exec.Command("/proc/self/exe", "serve", "--how", how, "--dir", dir)}
	s.files = map[string]string{}
	for _, file := range files {
		s.files[file] = filepath.Join(dir, "volume", file)
	}
	s.process.Stderr = os.Stderr
	input, err := s.process.StdinPipe()
	if err != nil {
		return nil, err
	}
	output, err := s.process.StdoutPipe()
	if err != nil {
		return nil, err
	}
	s.input, s.output = input, bufio.NewReader(output)
	if err := s.process.Start(); err != nil {
		return nil, err
	}
	s.pids = []int{s.process.Process.Pid}
	if line, err := s.output.ReadString('\n'); err != nil || line != "ready\n" {
		return nil, errors.Join(fmt.Errorf("%s says %q, %w", how, line, err), s.stop())
	}
	return s, nil
}

// allocated is how many objects a server of ours has allocated so far.
func (s *server) allocated() (int64, error) {
	if _, err := io.WriteString(s.input, "?\n"); err != nil {
		return 0, err
	}
	line, err := s.output.ReadString('\n')
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(strings.TrimSpace(line), 10, 64)
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
		return errors.Join(err, failed)
	case <-time.After(5 * time.Second):
		return errors.Join(err, fmt.Errorf("%s does not end", s.name), s.process.Process.Kill())
	}
}
