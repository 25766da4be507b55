package mounter

import (
	"os"
	"slices"
	"syscall"

	"example.com/pod-info-fuse/internal/proc"
	"example.com/pod-info-fuse/podfuse/packet"
)

// environment bounds the runtime's threads. The caller's is left out: the kubelet's may hold
// secrets.
var environment = []string{"GOMAXPROCS=2"}

// start executes this process's own binary as a spare of this process, with the log, and
// returns our end of its link.
func (c Config) start(log *os.File, more ...string) (link *os.File, process *os.Process, err error) {
	ours, theirs, err := packet.Pair()
	if err != nil {
		return nil, nil, err
	}
	defer theirs.Close()
	process, err = spawn(0, slices.Concat([]string{Verb}, c.args(), more), theirs, log)
	if err != nil {
		ours.Close()
		return nil, nil, err
	}
	return ours, process, nil
}

// spawn executes this process's own binary: in new namespaces, in a session of its own, in /, with /dev/null on
// descriptors 0 to 2, the files after them, and nothing else of ours. In particular it must not
// hold the pipe that the kubelet reads to its end.
func spawn(namespaces uintptr, args []string, files ...*os.File) (*os.Process, error) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer null.Close()
	if err := proc.CloseOnExec(); err != nil {
		return nil, err
	}
	return os.StartProcess("/proc/self/exe", append([]string{os.Args[0]}, args...), &os.ProcAttr{
		Dir: "/", Env: environment, Files: append([]*os.File{null, null, null}, files...),
		Sys: &syscall.SysProcAttr{Setsid: true, Cloneflags: namespaces},
	})
}
