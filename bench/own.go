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
)

// startOwn starts this program as a server of the driver's file system.
func (b *bench) startOwn(how string) (*server, error) {
	dir := filepath.Join(b.root, how)
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, err
	}
	s := &server{name: how, point: filepath.Join(dir, "fs"), process: inSession(exec.Command("/proc/self/exe", "serve", "--how", how, "--dir", dir))}
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
