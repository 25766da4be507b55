package csi

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"example.com/pod-info-fuse/flex"
	"example.com/pod-info-fuse/install"
	"example.com/pod-info-fuse/internal/proc"
)

// onHost calls a function in the namespaces of process 1, on a thread of its own, with the path of
// the driver that is installed there, "" for none. A panic is an error.
func (p *Plugin) onHost(f func(binary string) error) error {
	entered := false
	err := proc.OnNode(func() (err error) {
		defer p.recovered(&err) // nobody else can on this thread
		entered = true
		binary, err := p.findBinary()
		if err != nil {
			return status.Errorf(codes.FailedPrecondition, "find the installed driver: %v", err)
		}
		return f(binary)
	})
	if !entered {
		return status.Error(codes.FailedPrecondition, err.Error())
	}
	return err
}

// initialize calls init of a driver that is new, so that a new version takes over. A kubelet does
// that for FlexVolume drivers only. init does not say whether the version took over, or whether all
// containers are healed, so it is called again after initInterval. Only the Probe that calls it
// waits for it.
func (p *Plugin) initialize(binary string) {
	now := stamp(binary)
	p.mu.Lock()
	due := now != "" && (now != p.called || time.Since(p.calledAt) >= initInterval)
	if due {
		p.called, p.calledAt = now, time.Now()
	}
	p.mu.Unlock()
	if due {
		if err := call(binary, initTimeout, "init"); err != nil {
			p.Log("%v", err)
		}
	}
}

// initInterval is the time between two calls of init. A call takes milliseconds where there is
// nothing to do.
var initInterval = time.Minute

// stamp changes with a file; "": there is none.
func stamp(path string) string {
	var s unix.Stat_t
	if err := unix.Stat(path, &s); err != nil {
		return ""
	}
	return fmt.Sprintln(s.Dev, s.Ino, s.Size, s.Ctim)
}

// findBinary finds the installed driver, "" if there is none. Paths are those of the host. Where it
// was found is kept, because reading the plugin directory from the kubelet's command line costs
// time with the number of processes.
func (p *Plugin) findBinary() (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.found != "" && time.Since(p.foundAt) < findInterval && unix.Access(p.found, unix.X_OK) == nil {
		return p.found, nil
	}
	for _, path := range p.candidates() {
		err := unix.Access(path, unix.X_OK)
		if err == nil {
			p.found, p.foundAt = path, time.Now()
			return path, nil
		}
		if !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.ENOTDIR) {
			return "", &os.PathError{Op: "execute", Path: path, Err: err}
		}
	}
	return "", nil
}

// findInterval is for how long findBinary keeps where the driver was found. Meanwhile, a driver may
// be installed in the kubelet's plugin directory, which comes first.
const findInterval = time.Minute

// candidates are the paths where the driver can be installed. The kubelet's plugin directory
// comes first: an administrator who has both doors upgrades the driver there.
func (p *Plugin) candidates() []string {
	if p.Binary != "" {
		return []string{p.Binary}
	}
	var all []string
	if dir, _, err := install.FindPluginDir(); err == nil {
		all = append(all, install.Target{PluginDir: dir, Driver: p.Driver}.Binary())
	}
	return append(all, install.Target{PluginDir: p.dir(), Driver: p.Driver}.Binary())
}

// noBinary says that the driver is not installed.
func (p *Plugin) noBinary() error {
	return status.Errorf(codes.FailedPrecondition,
		"driver %s is not installed on the host as any of %q; a pod without hostPID: true does not see the host", p.Driver, p.candidates())
}

// How long call-outs may take. mount may have to wait for one that replaces a daemon which does
// not answer, and the kubelet waits for two minutes (kubernetes v1.34,
// pkg/volume/csi/csi_plugin.go, csiTimeout). unmount waits for nobody but another call-out
// for the same volume.
const (
	initTimeout    = 100 * time.Second
	mountTimeout   = 100 * time.Second
	unmountTimeout = 40 * time.Second
)

// call executes a call-out, on a thread of the host. The error has a code.
func call(binary string, limit time.Duration, args ...string) error {
	output, err := proc.Run(limit, binary, append([]string{binary}, args...)...)
	if errors.Is(err, proc.ErrNoEnd) {
		return status.Error(codes.DeadlineExceeded, err.Error())
	} else if err != nil {
		return status.Error(codes.Internal, err.Error())
	}
	var answer flex.Answer
	if err := json.Unmarshal(output, &answer); err != nil {
		return status.Errorf(codes.Internal, "%s %s answers %.300q; that is not a driver's answer", binary, args[0], output)
	}
	if answer.Status != flex.Success {
		code := codes.Internal
		if answer.Invalid { // a driver of before that field says it of nothing
			code = codes.InvalidArgument
		}
		return status.Error(code, cmp.Or(answer.Message, string(answer.Status)))
	}
	return nil
}
