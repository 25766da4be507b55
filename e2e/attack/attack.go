// Package attack is what somebody would try who has taken over a process of the
// daemon. It is for tests: the build "attack" of package builds tries all of it in each
// process of the pair, once that is confined, and may answer as [Lie] does.
package attack

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/internal/confine"
)

// Attack is something that a confined process must not be able to do.
type Attack struct {
	Name string
	// Try returns nil when it could be done.
	Try func() error
}

// On lists the attacks of a process of the pair that has these rules, which may allow some: with
// none, it lists all. runDir is the driver's run directory, record a file in it, victim another
// process, log a connected datagram socket, and others listen, as [Listen] has them do.
func On(rules confine.Rules, runDir, record string, victim, log int) []Attack {
	all := slices.Concat(onSockets(log), ByCall(victim), []Attack{
		{"read /etc/passwd", func() error { return open("/etc/passwd", unix.O_RDONLY) }},
		{"list /", func() error { return open("/", unix.O_RDONLY|unix.O_DIRECTORY) }},
		{"list the directory of all drivers", func() error { return open(filepath.Dir(runDir), unix.O_RDONLY|unix.O_DIRECTORY) }},
		{commandLines, func() error { return open("/proc/1/cmdline", unix.O_RDONLY) }},
		{"open a device", func() error { return open("/dev/zero", unix.O_RDONLY) }},
		{"open /dev/fuse", func() error { return open("/dev/fuse", unix.O_RDWR) }},
		{"write to a record", func() error { return open(record, unix.O_WRONLY) }},
		{"cut a file that it has open", cutOpenFile},
		{"open that file anew", reopenFile},
		{"make a record", func() error { return create(filepath.Join(runDir, "volumes", ".attack")) }},
		{"write in /tmp", func() error { return create("/tmp/.pod-info-fuse-attack") }},
		{"change a file's mode", func() error { return unix.Chmod(record, 0o640) }},
		{"link a record", func() error { return link(record, filepath.Join(runDir, ".attack")) }},
		{"read another process's memory", func() error { return readMemory(victim) }},
		{"signal a process of root", func() error { return unix.Kill(1, 0) }},
		{"execute another program", func() error { return execute("/bin/true", 0) }},
		{"mount", func() error { return mountAndDetach() }},
		{"raise a limit", func() error { return raise(unix.RLIMIT_CORE, 1<<20) }},
		{"raise the limit of descriptors", func() error { return raise(unix.RLIMIT_NOFILE, confine.SendFD+1) }},
	})
	return slices.DeleteFunc(all, func(a Attack) bool {
		return slices.Contains(rules.Read, "/proc") && a.Name == commandLines
	})
}

// ByCall lists those that take a system call which neither a process of the pair needs, nor one of
// root's that mounts for others.
func ByCall(victim int) []Attack {
	return []Attack{
		{"make a file in memory", func() error { return descriptor(unix.MemfdCreate("attack", 0)) }},
		{"make a hole in a file in memory", func() error { return makeHole(unix.MADV_REMOVE) }},
		// The kernel takes the lower half of the register.
		{"make one by a number that is too large", func() error { return makeHole(unix.MADV_REMOVE | 1<<32) }},

		{"make a TCP socket", func() error { return descriptor(unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)) }},
		{"make a UDP socket", func() error { return descriptor(unix.Socket(unix.AF_INET6, unix.SOCK_DGRAM, 0)) }},
		{"make a Unix socket", func() error { return descriptor(unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)) }},
		{"make a netlink socket", func() error { return descriptor(unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE)) }},

		{"trace another process", func() error { return trace(victim) }},
		{"take another process's descriptor", func() error { return takeDescriptor(victim) }},

		{"execute itself in a user name space", func() error { return execute("/proc/self/exe", unix.CLONE_NEWUSER) }},
		{"execute itself in a mount name space", func() error { return execute("/proc/self/exe", unix.CLONE_NEWNS) }},

		{"leave the UTS name space", func() error { return onThread(func() error { return unix.Unshare(unix.CLONE_NEWUTS) }) }},
		{"become root", func() error { return onThread(func() error { return raw(unix.SYS_SETUID, 0) }) }},
		{"get a capability", func() error { return onThread(getCapability) }},
		{"load a BPF map", func() error { return makeBPFMap() }},
		{"set up an io_uring", func() error { return makeRing() }},
		{"add a key", func() error { return addKey() }},
		{"be dumpable again", func() error { return dumpable() }},
	}
}

// commandLines is what the rules of some drivers allow.
const commandLines = "read the command lines of others"

func open(path string, flags int) error {
	return descriptor(unix.Open(path, flags|unix.O_CLOEXEC, 0))
}

func create(path string) error {
	err := descriptor(unix.Open(path, unix.O_WRONLY|unix.O_CREAT|unix.O_CLOEXEC, 0o600))
	if err == nil {
		return os.Remove(path)
	}
	return err
}

// openFile finds a regular file that this process has open for reading and writing, such as the one
// that it counts in.
func openFile() (fd int, size int64) {
	for fd := 100; fd > 2; fd-- {
		var stat unix.Stat_t
		if unix.Fstat(fd, &stat) != nil || stat.Mode&unix.S_IFMT != unix.S_IFREG || stat.Size == 0 {
			continue
		}
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0); err == nil && flags&unix.O_ACCMODE == unix.O_RDWR {
			return fd, stat.Size
		}
	}
	return -1, 0
}

// cutOpenFile cuts it where it ends.
func cutOpenFile() error {
	fd, size := openFile()
	if fd < 0 {
		return nil // nobody has refused anything
	}
	return unix.Ftruncate(fd, size)
}

func reopenFile() error {
	fd, _ := openFile()
	if fd < 0 {
		return nil
	}
	return open("/proc/self/fd/"+strconv.Itoa(fd), unix.O_RDWR)
}

// makeHole gives advice about shared memory, which is a file of a tmpfs (mm/shmem.c,
// shmem_zero_setup).
func makeHole(advice uintptr) error {
	memory, err := unix.Mmap(-1, 0, os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_ANONYMOUS)
	if err != nil {
		return nil // nobody has refused anything
	}
	defer unix.Munmap(memory)
	memory[0] = 1
	if err := raw(unix.SYS_MADVISE, uintptr(unsafe.Pointer(&memory[0])), uintptr(len(memory)), advice); err != nil {
		return err
	}
	if memory[0] != 0 {
		return errors.New("it has no hole")
	}
	return nil
}

func link(from, to string) error {
	if err := unix.Link(from, to); err != nil {
		return err
	}
	return os.Remove(to)
}

func descriptor(fd int, err error) error {
	if err == nil {
		unix.Close(fd)
	}
	return err
}

func trace(pid int) error {
	return onThread(func() error {
		if err := unix.PtraceSeize(pid); err != nil {
			return err
		}
		return nil // the end of this thread lets go of it
	})
}

// readMemory reads what a process can read only if it may trace the other one.
func readMemory(pid int) error {
	buffer := make([]byte, 1)
	local := []unix.Iovec{{Base: &buffer[0], Len: 1}}
	remote := []unix.RemoteIovec{{Base: 0, Len: 1}}
	_, err := unix.ProcessVMReadv(pid, local, remote, 0)
	if errors.Is(err, unix.EFAULT) {
		return nil // we may, but nothing is there
	}
	return err
}

func takeDescriptor(pid int) error {
	pidfd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return err
	}
	defer unix.Close(pidfd)
	return descriptor(unix.PidfdGetfd(pidfd, 0, 0))
}

// execute executes a program that ends by itself.
func execute(path string, flags uintptr) error {
	process, err := os.StartProcess(path, []string{path, "-test.run=^$"}, &os.ProcAttr{
		Env: []string{}, Sys: &syscall.SysProcAttr{Cloneflags: flags},
	})
	if err != nil {
		return err
	}
	_, err = process.Wait()
	return err
}

// onThread runs a function on a thread that ends with it.
func onThread(f func() error) error {
	result := make(chan error)
	go func() {
		runtime.LockOSThread()
		result <- f()
	}()
	return <-result
}

func raw(number uintptr, args ...uintptr) error {
	var a [6]uintptr
	copy(a[:], args)
	if _, _, errno := unix.RawSyscall6(number, a[0], a[1], a[2], a[3], a[4], a[5]); errno != 0 {
		return errno
	}
	return nil
}

func getCapability() error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	data[0].Effective, data[0].Permitted = 1<<unix.CAP_CHOWN, 1<<unix.CAP_CHOWN
	return unix.Capset(&header, &data[0])
}

func mountAndDetach() error {
	fd, err := unix.OpenTree(unix.AT_FDCWD, "/", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	return descriptor(fd, err)
}

func makeBPFMap() error {
	const createMap, array = 0, 2 // enum bpf_cmd, enum bpf_map_type
	attr := struct{ kind, keySize, valueSize, maxEntries, flags uint32 }{array, 4, 4, 1, 0}
	fd, _, errno := unix.Syscall(unix.SYS_BPF, createMap, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr))
	if errno != 0 {
		return errno
	}
	return unix.Close(int(fd))
}

func makeRing() error {
	var params [120]byte // struct io_uring_params
	fd, _, errno := unix.Syscall(unix.SYS_IO_URING_SETUP, 1, uintptr(unsafe.Pointer(&params)), 0)
	if errno != 0 {
		return errno
	}
	return unix.Close(int(fd))
}

func addKey() error {
	_, err := unix.AddKey("user", "pod-info-fuse-attack", []byte("x"), unix.KEY_SPEC_PROCESS_KEYRING)
	return err
}

func dumpable() error { return unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0) }

func raise(limit int, most uint64) error {
	return unix.Setrlimit(limit, &unix.Rlimit{Cur: most, Max: most})
}
