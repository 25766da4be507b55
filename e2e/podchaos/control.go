package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/internal/proc"
)

// startControl has root mount the program, and a container read it.
func (t *trial) startControl(p *pod, one program) (*served, *reader, error) {
	s, mounts, err := t.serveByRoot(p, one)
	if err != nil {
		return s, nil, err
	}
	r, err := p.startReader(t.settings, one, mounts, "/data/m=")
	if err == nil {
		err = r.awaitProgress(context.Background(), now())
	}
	return s, r, err
}

// serveByRoot has root mount the program on the host, where there is nothing of pod-fuse. A
// container mounts the directory above on /data, with the propagation that lets it see what is
// mounted again.
func (t *trial) serveByRoot(p *pod, one program) (*served, []volumeMount, error) {
	dir := filepath.Join(p.dir, "control")
	mountpoint := filepath.Join(dir, "m")
	err := errors.Join(os.MkdirAll(mountpoint, 0o755), unix.Mount(dir, dir, "", unix.MS_BIND, ""))
	if err == nil {
		err = unix.Mount("", dir, "", unix.MS_SHARED, "")
	}
	if err != nil {
		return nil, nil, err
	}
	log, err := os.Create(filepath.Join(p.dir, "log"))
	if err != nil {
		return nil, nil, err
	}
	root := &rootServer{line: one.commandLine(t.rig.sources, p.source, mountpoint, true), dir: mountpoint, log: log, left: make(chan struct{})}
	root.wait = func() <-chan time.Time { return time.After(endTimeout) }
	go root.run()
	s := &served{pids: root.pids, said: root.said, stop: func() error {
		root.end()
		return errors.Join(unix.Unmount(dir, unix.MNT_DETACH), p.remove(), log.Close())
	}}
	return s, []volumeMount{{source: dir, path: "/data", propagated: true}}, await(context.Background(), stepTimeout, root.mounted)
}

// A rootServer mounts a program again as soon as it has died.
type rootServer struct {
	line []string
	dir  string
	log  *os.File
	left chan struct{} // closed when it serves no more
	// wait is how long a program that was killed may take until it is looked at.
	wait func() <-chan time.Time

	mu    sync.Mutex // guards what follows
	cmd   *exec.Cmd
	ended bool
}

func (r *rootServer) run() {
	defer close(r.left)
	for r.start() {
		r.awaitEnd()
		// What has died hides the directory. Only the program's own mount goes.
		for r.mounted() == nil && unix.Unmount(r.dir, unix.MNT_DETACH) == nil {
		}
	}
}

// endTimeout is how long a program that was killed may take until it ends by itself.
const endTimeout = 2 * time.Second

// awaitEnd returns when the program has ended. One that was killed while it waited in the kernel
// for its own answer does not end as long as its connection lasts: some look at their own mount
// when they start.
func (r *rootServer) awaitEnd() {
	ended := make(chan struct{})
	go func() {
		_ = r.cmd.Wait()
		close(ended)
	}()
	for looks := 0; ; {
		select {
		case <-ended:
			return
		case <-r.wait():
		}
		if looks++; !proc.IsEnding(r.cmd.Process.Pid) {
			looks = 0
		}
		if looks > 1 && r.mounted() == nil {
			_ = unix.Unmount(r.dir, unix.MNT_FORCE) // which aborts the connection, also of a mount that is in use
		}
	}
}

func (r *rootServer) start() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended {
		return false
	}
	r.cmd = exec.Command(r.line[0], r.line[1:]...)
	r.cmd.Stdout, r.cmd.Stderr = r.log, r.log
	return r.cmd.Start() == nil
}

// mounted tells by the kernel's table whether the program's mount is there.
func (r *rootServer) mounted() error {
	if !slices.Contains((&driver{root: filepath.Dir(r.dir)}).mounts(), r.dir) {
		return errors.New("the program has not mounted: " + r.said())
	}
	return nil
}

func (r *rootServer) pids() []int {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cmd == nil || r.cmd.Process == nil || stateOf(r.cmd.Process.Pid) == 'Z' || stateOf(r.cmd.Process.Pid) == '-' {
		return nil
	}
	return []int{r.cmd.Process.Pid}
}

func (r *rootServer) said() string {
	text, _ := os.ReadFile(r.log.Name())
	return string(text[max(0, len(text)-1000):])
}

func (r *rootServer) end() {
	r.mu.Lock()
	r.ended = true
	if r.cmd != nil && r.cmd.Process != nil {
		_ = r.cmd.Process.Kill()
	}
	r.mu.Unlock()
	<-r.left
}
