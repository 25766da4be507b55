package command

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/hanwen/go-fuse/v2/fuse"

	"example.com/pod-info-fuse/internal/testnode"
	"example.com/pod-info-fuse/survive"
	"example.com/pod-info-fuse/survive/volume"
)

// The test's binary is also a program whose file counts its reads in the State, as a Standalone of
// this name.
const visitsProgram = "visits-test"

// The binary's name says its version and how large its State is: VERSION,SIZE.
func init() {
	if os.Args[0] != visitsProgram {
		return
	}
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	version, size, _ := strings.Cut(filepath.Base(self), ",")
	state, err := strconv.Atoi(size)
	if err != nil {
		panic(err)
	}
	Standalone{About: "visits counts.", Driver: survive.Driver{
		Program: visitsProgram, Version: version, State: state,
		FileSystem: func(site survive.Site) survive.FileSystem {
			return &visits{volume.NewRoot(site.Volumes), (*atomic.Uint64)(unsafe.Pointer(unsafe.SliceData(site.State)))}
		},
	}}.Main()
}

// visits is a file system with a file, number 1 of its volume, that holds how often it was read.
type visits struct {
	volume.Root
	count *atomic.Uint64
}

const visitsSize = 21

func (v *visits) Lookup(cancel <-chan struct{}, in *fuse.InHeader, name string, out *fuse.EntryOut) fuse.Status {
	if in.NodeId == fuse.FUSE_ROOT_ID {
		return v.Root.Lookup(cancel, in, name, out)
	}
	record, status := v.Record(in.NodeId)
	if status.Ok() {
		record.Entry(1, out)
		out.Attr = fuse.Attr{Ino: out.NodeId, Mode: fuse.S_IFREG | 0o444, Nlink: 1, Size: visitsSize}
	}
	return status
}

func (v *visits) GetAttr(cancel <-chan struct{}, in *fuse.GetAttrIn, out *fuse.AttrOut) fuse.Status {
	if _, number := volume.Split(in.NodeId); in.NodeId == fuse.FUSE_ROOT_ID || number == 0 {
		return v.Root.GetAttr(cancel, in, out)
	}
	out.Attr = fuse.Attr{Ino: in.NodeId, Mode: fuse.S_IFREG | 0o444, Nlink: 1, Size: visitsSize}
	return fuse.OK
}

func (*visits) Open(_ <-chan struct{}, _ *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	out.OpenFlags = fuse.FOPEN_DIRECT_IO | fuse.FOPEN_NOFLUSH
	return fuse.OK
}

func (v *visits) Read(_ <-chan struct{}, in *fuse.ReadIn, _ []byte) (fuse.ReadResult, fuse.Status) {
	if in.Offset > 0 {
		return fuse.ReadResultData(nil), fuse.OK
	}
	return fuse.ReadResultData(fmt.Appendf(nil, "%020d\n", v.count.Add(1))), fuse.OK
}

// A file counts its reads through a hundred kills and an upgrade. A version with another State
// begins anew, and so does a pair after a loss.
func TestStateSurvives(t *testing.T) {
	testnode.Require(t) // as with the driver's own tests: a process with the race detector cannot be confined
	dir, bin := t.TempDir(), t.TempDir()
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	call := func(version, verb string, args ...string) string {
		t.Helper()
		path := filepath.Join(bin, version)
		if _, err := os.Lstat(path); err != nil {
			if err := os.WriteFile(path, self, 0o711); err != nil {
				t.Fatal(err)
			}
		}
		// Outside of this process's cgroup.
		command := &exec.Cmd{Path: path, Args: append([]string{visitsProgram, verb}, args...), SysProcAttr: &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWCGROUP}}
		output, err := command.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v: %s", verb, err, output)
		}
		return string(output)
	}
	const first, same, other = "1,8", "2,8", "3,16"
	call(first, "mount", dir)
	t.Cleanup(func() { call(other, "stop") })
	// pair waits until both processes are there, and neither is one that has ended.
	pair := func(ended int) (active, standby int) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(2 * time.Millisecond) {
			var all []mountReport
			if err := json.Unmarshal([]byte(call(first, "status", "-o", "json", dir)), &all); err != nil {
				t.Fatal(err)
			}
			if a, s := all[0].Daemon.Active, all[0].Daemon.Standby; a != nil && s != nil && a.PID != 0 && s.PID != 0 && a.PID != ended && s.PID != ended {
				return a.PID, s.PID
			}
			if time.Now().After(deadline) {
				t.Fatal("there are no two processes")
			}
		}
	}
	reads := func(want uint64) {
		t.Helper()
		text, err := os.ReadFile(filepath.Join(dir, "count"))
		if got, _ := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64); err != nil || got != want {
			t.Fatalf("it was read %d times, want %d: %q, %v", got, want, text, err)
		}
	}
	active, standby := 0, 0
	for i := range 100 {
		reads(uint64(i + 1))
		active, _ = pair(active)
		if err := syscall.Kill(active, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	reads(101)
	pair(active)
	call(same, "upgrade", dir)
	reads(102)
	call(other, "upgrade", dir)
	reads(1)
	reads(2)
	active, standby = pair(0)
	for _, signal := range []syscall.Signal{syscall.SIGSTOP, syscall.SIGKILL} { // so that none takes over
		if err := syscall.Kill(active, signal); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Kill(standby, signal); err != nil {
			t.Fatal(err)
		}
	}
	call(other, "mount", dir) // heals it
	reads(1)
	call(other, "stop")
	if left, err := os.ReadDir(filepath.Join("/run", visitsProgram)); !os.IsNotExist(err) {
		t.Errorf("stop has left %v, %v", left, err)
	}
}
