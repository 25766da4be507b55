package mount

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
)

// Namespace is a mount namespace, seen through a process that is in it.
type Namespace struct {
	PID  int
	own  bool // this process is in it
	name string
}

// Own is the mount namespace of this process.
func Own() Namespace { return Namespace{PID: os.Getpid(), own: true} }

// Of is the mount namespace of a process.
func Of(pid int) (Namespace, error) {
	own, err := os.Readlink("/proc/self/ns/mnt")
	if err != nil {
		return Namespace{}, err
	}
	name, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/mnt", pid))
	return Namespace{PID: pid, name: name, own: name == own}, err
}

// Others returns the mount namespaces of all other processes, one each.
func Others() ([]Namespace, error) {
	links, err := filepath.Glob("/proc/[0-9]*/ns/mnt")
	if err != nil {
		return nil, err
	}
	own, err := os.Readlink("/proc/self/ns/mnt")
	if err != nil {
		return nil, err
	}
	seen := map[string]bool{own: true}
	var all []Namespace
	for _, link := range links {
		name, err := os.Readlink(link)
		if err != nil || seen[name] {
			continue // the process has ended, or is a kernel thread
		}
		seen[name] = true
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(link))))
		if err == nil {
			all = append(all, Namespace{PID: pid, name: name})
		}
	}
	return all, nil
}

// Mounts lists the namespace's mounts of a type and a source. Paths are as its
// process sees them.
func (n Namespace) Mounts(fsType, source string) ([]*mountinfo.Info, error) {
	table, err := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", n.PID))
	if err != nil {
		return nil, err
	}
	return mountinfo.GetMountsFromReader(bytes.NewReader(table), func(info *mountinfo.Info) (skip, stop bool) {
		return info.FSType != fsType || info.Source != source, false
	})
}

// Do calls a function on a thread that is in the namespace, and that has a working
// directory of its own.
func (n Namespace) Do(f func() error) error {
	result := make(chan error)
	go onOwnThread(func() { result <- n.enterAnd(f) })
	return <-result
}

func (n Namespace) enterAnd(f func() error) error {
	// setns, too, refuses a thread that shares its root and working directory with
	// others (man 2 setns).
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return os.NewSyscallError("unshare", err)
	}
	if n.own {
		return f()
	}
	path := fmt.Sprintf("/proc/%d/ns/mnt", n.PID)
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open %s: %w", path, err)
	}
	defer unix.Close(fd)
	if now, err := os.Readlink(path); err != nil || now != n.name {
		return fmt.Errorf("process %d is not in %s any more", n.PID, n.name)
	}
	if err := unix.Setns(fd, unix.CLONE_NEWNS); err != nil {
		return os.NewSyscallError("setns "+path, err)
	}
	return f()
}

// onOwnThread calls a function on a thread that ends with it, and that is not
// the process's first: /proc/self shows the namespace of that one.
func onOwnThread(f func()) {
	runtime.LockOSThread() // never unlocked: the thread is not used again
	if unix.Gettid() != unix.Getpid() {
		f()
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		onOwnThread(f)
	}()
	<-done
	runtime.UnlockOSThread()
}
