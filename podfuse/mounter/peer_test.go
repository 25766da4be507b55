package mounter

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/internal/packet"
	"example.com/pod-info-fuse/internal/proc"
	"example.com/pod-info-fuse/podfuse/wire"
)

// A process connects and ends, and another one keeps the connection. When a process of another pod
// gets the number of the first one, it is not the one that asks: what it has of its own pod's
// volumes would go to who has the connection.
func TestAPIDThatComesAgain(t *testing.T) {
	t.Parallel()
	for name, variable := range map[string]string{"SO_PEERPIDFD": "LINUX=", "before Linux 6.5": "LINUX=6.4"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, variable)
			victim := w.container(containerOptions{})
			socket, number := w.connectAndEnd()
			time.Sleep(50 * time.Millisecond) // the kernel tells when a process began in hundredths of a second
			again, err := startAs(number, "nsenter", "-t", strconv.Itoa(victim.pid), "-m", "-r", "--", "/test", "sleeper")
			must(t, err)
			defer again()
			eventually(t, "the process of the other pod is there", func() bool {
				text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", number))
				return strings.Contains(string(text), "sleeper") && proc.Executes(number) == nil
			})
			must(t, socket.Send(hang, wire.Request{Format: wire.Format, Kind: wire.Serve, Server: w.server.ID()}))
			text, files, err := socket.Receive(time.Now().Add(hang))
			must(t, err)
			defer packet.Close(files)
			var answer wire.Answer
			must(t, packet.Decode(text, &answer))
			if answer.Error == "" || len(files) > 0 {
				t.Errorf("it serves another pod's volume: %+v, with %d descriptors", answer, len(files))
			}
			if want := "has ended, and process " + strconv.Itoa(number); variable == "LINUX=6.4" && !strings.Contains(answer.Error, want) {
				t.Errorf("%q, want %q", answer.Error, want)
			}
			if !t.Failed() {
				victim.serve(launchOptions{}) // which is what it seems to be
			}
		})
	}
}

// connectAndEnd returns a connection that a process has made which has ended, and its number.
func (w *world) connectAndEnd() (socket *packet.Socket, number int) {
	w.t.Helper()
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	must(w.t, err)
	file := os.NewFile(uintptr(fd), "connection")
	defer file.Close()
	before := w.accepted.Load()
	cmd := exec.Command("/proc/self/exe", "connector", w.client.Socket())
	cmd.ExtraFiles = []*os.File{file}
	output, err := cmd.CombinedOutput()
	if err != nil {
		w.t.Fatalf("connect: %v: %s", err, output)
	}
	eventually(w.t, "the connection is accepted", func() bool { return w.accepted.Load() > before })
	socket, err = packet.New(file)
	must(w.t, err)
	w.t.Cleanup(func() { socket.Close() })
	return socket, cmd.Process.Pid
}

// connectorMain connects what descriptor 3 is.
func connectorMain(args []string) error { return unix.Connect(3, &unix.SockaddrUnix{Name: args[0]}) }

// cloneArgs is struct clone_args (linux/sched.h), as far as it is needed.
type cloneArgs struct {
	flags, pidfd, childTID, parentTID, exitSignal, stack, stackSize, tls, setTID, setTIDSize uint64
}

// startAs starts a command with a number that was a process's before (man 2 clone3, set_tid; Linux
// 5.5). end ends it.
func startAs(number int, name string, args ...string) (end func(), err error) {
	path, err := exec.LookPath(name)
	if err != nil {
		return nil, err
	}
	path0, err := syscall.BytePtrFromString(path)
	argv, argvErr := syscall.SlicePtrFromStrings(append([]string{name}, args...))
	envv, envErr := syscall.SlicePtrFromStrings(os.Environ())
	if err := errors.Join(err, argvErr, envErr); err != nil {
		return nil, err
	}
	wanted := int32(number)
	clone := cloneArgs{exitSignal: uint64(unix.SIGCHLD), setTID: uint64(uintptr(unsafe.Pointer(&wanted))), setTIDSize: 1}
	syscall.ForkLock.Lock()
	pid, _, errno := rawStart(&clone, path0, &argv[0], &envv[0])
	syscall.ForkLock.Unlock()
	runtime.KeepAlive(&wanted)
	if errno != 0 {
		return nil, fmt.Errorf("start as process %d: %w", number, errno)
	}
	return func() {
		_ = unix.Kill(int(pid), unix.SIGKILL)
		_, _ = unix.Wait4(int(pid), nil, 0, nil)
	}, nil
}

// rawStart calls nothing of the runtime in the child, which has no other thread.
//
//go:norace
//go:nosplit
func rawStart(clone *cloneArgs, path *byte, argv, envv **byte) (pid, unused uintptr, errno syscall.Errno) {
	pid, _, errno = syscall.RawSyscall(unix.SYS_CLONE3, uintptr(unsafe.Pointer(clone)), unsafe.Sizeof(*clone), 0)
	if errno != 0 || pid != 0 {
		return pid, 0, errno
	}
	_, _, _ = syscall.RawSyscall(unix.SYS_EXECVE, uintptr(unsafe.Pointer(path)), uintptr(unsafe.Pointer(argv)), uintptr(unsafe.Pointer(envv)))
	for {
		_, _, _ = syscall.RawSyscall(unix.SYS_EXIT, 127, 0, 0)
	}
}
