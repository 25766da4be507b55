package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// A container is one of a pod, by runc.
type container struct {
	pod  *pod
	name string
	dir  string // its bundle
	pid  int    // of its first process
	cmd  *exec.Cmd
	left chan struct{} // closed when it has ended

	mu  sync.Mutex // guards what follows
	log bytes.Buffer
}

// start starts a container. Its output goes to out, and what it says besides to its log.
func (p *pod) start(name string, args []string, volumes []volumeMount, out io.Writer) (*container, error) {
	c := &container{pod: p, name: name, dir: filepath.Join(p.dir, "containers", name), left: make(chan struct{})}
	if err := p.bindSubPaths(c, volumes); err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	volumes = append(volumes, volumeMount{source: self, path: "/podchaos", readOnly: true})
	if err := writeBundle(c.dir, c.cgroup(), p.uid, args, volumes); err != nil {
		return nil, err
	}
	pidFile := filepath.Join(c.dir, "pid")
	c.cmd = p.runc("run", "--bundle", c.dir, "--pid-file", pidFile, c.id())
	c.cmd.Stdout, c.cmd.Stderr = out, c
	if out == nil {
		c.cmd.Stdout = c
	}
	if err := c.cmd.Start(); err != nil {
		return nil, err
	}
	p.containers = append(p.containers, c)
	go func() {
		_ = c.cmd.Wait()
		close(c.left)
	}()
	err = await(context.Background(), stepTimeout, func() (err error) {
		if c.pid, err = readPID(pidFile); err == nil {
			return nil
		}
		select {
		case <-c.left:
			return errEnded
		default:
			return err
		}
	})
	if err != nil {
		return nil, fmt.Errorf("start container %s: %w: %s", name, err, c.said())
	}
	return c, nil
}

var errEnded = fmt.Errorf("it has ended")

// Write adds to the log.
func (c *container) Write(text []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.log.Len() < 1<<20 {
		c.log.Write(text)
	}
	return len(text), nil
}

// said is the end of the log.
func (c *container) said() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	text := c.log.Bytes()
	return strings.TrimSpace(string(text[max(0, len(text)-1500):]))
}

func (c *container) id() string {
	return filepath.Base(c.pod.rig.root) + "-" + c.pod.id[:8] + "-" + c.name
}
func (c *container) cgroup() string { return filepath.Join(c.pod.cgroup(), c.name) }

// processes are those of a container, by the base name of their executable; "" for all.
func (c *container) processes(executable string) (found []int) {
	for _, pid := range cgroupProcesses(c.cgroup()) {
		exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
		if executable == "" || err == nil && filepath.Base(exe) == executable {
			found = append(found, pid)
		}
	}
	return found
}

// A beginner is a process in a container beside the first.
type beginner struct {
	pid  int
	left chan struct{} // closed when it has ended, and its output is complete
	out  bytes.Buffer
}

// exec starts one, as kubectl exec and probes do.
func (c *container) exec(name string, args ...string) (*beginner, error) {
	pidFile := filepath.Join(c.dir, "pid-"+name)
	cmd := c.pod.runc(append([]string{"exec", "--pid-file", pidFile, c.id()}, args...)...)
	b := &beginner{left: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = &b.out, c
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		_ = cmd.Wait()
		close(b.left)
	}()
	err := await(context.Background(), stepTimeout, func() (err error) {
		b.pid, err = readPID(pidFile)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("exec in container %s: %w: %s", c.name, err, c.said())
	}
	return b, nil
}

func readPID(file string) (int, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(string(text))
}

// kill kills the process, and returns when it has ended.
func (b *beginner) kill() error {
	if err := unix.Kill(b.pid, unix.SIGKILL); err != nil {
		return fmt.Errorf("kill process %d: %w", b.pid, err)
	}
	return await(context.Background(), stepTimeout, func() error {
		if state := stateOf(b.pid); state != 'Z' && state != '-' {
			return fmt.Errorf("process %d, which was killed, is in state %c", b.pid, state)
		}
		return nil
	})
}

// signal signals the first process, if it has come that far, and not yet farther.
func (c *container) signal(signal unix.Signal) {
	select {
	case <-c.left:
	default:
		if c.pid > 0 {
			_ = unix.Kill(c.pid, signal)
		}
	}
}

// end tells the container to end, and kills it if it does not.
func (c *container) end(limit time.Duration) error {
	c.signal(unix.SIGTERM)
	select {
	case <-c.left:
		return nil
	case <-time.After(limit):
		return fmt.Errorf("container %s does not end within %v", c.name, limit)
	}
}

// kill kills every process of the container, and returns how long it took until none was left.
func (c *container) kill() (time.Duration, error) {
	began := time.Now()
	c.signal(unix.SIGKILL) // the others of its PID namespace with it
	err := await(context.Background(), stepTimeout, func() error {
		if left := c.processes(""); len(left) > 0 {
			return fmt.Errorf("processes %v of container %s are left: %s", left, c.name, states(left))
		}
		return nil
	})
	took := time.Since(began)
	if err == nil {
		<-c.left
	}
	return took, err
}

// states are those of processes, as S (sleeping) or D, which no signal reaches.
func states(pids []int) string {
	var all []string
	for _, pid := range pids {
		all = append(all, fmt.Sprintf("%d:%c", pid, stateOf(pid)))
	}
	return strings.Join(all, " ")
}

func stateOf(pid int) byte {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if at := bytes.LastIndexByte(stat, ')'); err == nil && at+2 < len(stat) {
		return stat[at+2]
	}
	return '-'
}

// cgroupProcesses are those of a cgroup, and of those below.
func cgroupProcesses(cgroup string) (found []int) {
	_ = filepath.WalkDir(filepath.Join("/sys/fs/cgroup/pids", cgroup), func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.Name() != "cgroup.procs" {
			return nil // it may be gone
		}
		text, _ := os.ReadFile(path)
		for field := range bytes.FieldsSeq(text) {
			if pid, err := strconv.Atoi(string(field)); err == nil && pid > 0 {
				found = append(found, pid)
			}
		}
		return nil
	})
	return found
}
