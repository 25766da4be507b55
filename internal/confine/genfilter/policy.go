package main

import (
	"slices"

	"golang.org/x/sys/unix"

	seccomp "github.com/elastic/go-seccomp-bpf"

	"example.com/pod-info-fuse/internal/confine"
)

// allowed are the system calls of a process of the pair that need no look at
// their arguments. Those of every request come first: before Linux 5.11 the
// filter compares one after the other.
var allowed = []string{
	// Serving.
	"read", "write", "futex", "ppoll", "epoll_pwait", "tgkill", "openat", "close", "fstat", "getdents64", "pidfd_open", "uname", "statfs",

	// Go's runtime and library: memory, threads, timers, signals, descriptors.
	"mmap", "munmap", "mprotect", "mincore", "brk",
	"clock_gettime", "nanosleep", "sched_yield", "sched_getaffinity", "gettid", "getpid", "getppid", "restart_syscall",
	"rt_sigaction", "rt_sigprocmask", "rt_sigreturn", "sigaltstack", "set_robust_list", "set_tid_address", "rseq",
	"timer_create", "timer_settime", "timer_delete", "getrandom",
	"epoll_create1", "epoll_ctl", "eventfd2", "fcntl", "dup3", "pipe2", "readv", "writev", "pread64", "lseek", "readlinkat",
	"exit", "exit_group",

	// The operator's files, wherever links lead below their directory. Like openat, it is
	// Landlock's business.
	"openat2",

	// The links, the control socket and the log, which are there already. Making, connecting
	// and binding a socket is not allowed, nor is a call that takes an address: write(2)
	// writes to them. Descriptors can be received, but not sent; see conditionalForSockets.
	"accept4", "recvmsg", "recvfrom", "getsockopt", "setsockopt", "getsockname", "getpeername", "shutdown",

	// Starting a standby, watching over it, and ending a process that hangs. Landlock says
	// which file can be executed.
	"execve", "setsid", "chdir", "wait4", "waitid", "kill", "pidfd_send_signal", "prlimit64",
	"getuid", "geteuid", "getgid", "getegid",
}

// ownDescriptors: a thread that is to end has descriptors of its own, so that it is the last to
// close what a client has left in a socket.
var ownDescriptors = seccomp.NameWithConditions{Name: "unshare", Conditions: argument(0, seccomp.Equal, unix.CLONE_FILES)}

// conditionalForSockets is for a process that has sockets for its clients, and sends descriptors to
// one other process.
var conditionalForSockets = []seccomp.NameWithConditions{
	{Name: "sendmsg", Conditions: argument(0, seccomp.Equal, confine.SendFD)},
	ownDescriptors,
}

// forMounting is what a process of root's may do besides that mounts for others, with its children.
// It may make sockets, as it does for its clients.
var forMounting = []string{
	"open_tree", "move_mount", "mount_setattr", "mount", "umount2", "pivot_root", "chroot", "fchdir", "statx",
	"fsopen", "fsconfig", "fsmount", "fstatfs", // a connection once more, and fusectl

	// What it makes in its run directory and in its own mount namespace.
	"mkdirat", "unlinkat", "linkat", "renameat", "fchmodat", "umask", "bind", "listen",

	// What it asks of other processes: the connection of a program whose mounter was lost.
	"pidfd_getfd",

	"close_range", "sendmsg",
}

// only on some architectures, by the names that the library has for them.
var allowedOn = map[string][]string{
	"amd64": {"newfstatat", "arch_prctl"},
	"arm64": {"fstatat"},
}

// argument is a condition on an argument of a system call.
func argument(n uint32, op seccomp.Operation, value uint64) seccomp.ArgumentConditions {
	return seccomp.ArgumentConditions{{Argument: n, Operation: op, Value: value}}
}

const newNamespaces = unix.CLONE_NEWNS | unix.CLONE_NEWCGROUP | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC |
	unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNET

// conditional are the system calls that are allowed with some arguments only.
// clone3 is not among them: a filter cannot see its flags, and the pair does not need it.
var conditional = []seccomp.NameWithConditions{
	// Threads and children, but no user name space, which would be the way to
	// capabilities.
	{Name: "clone", Conditions: argument(0, seccomp.BitsNotSet, newNamespaces)},
	// A link. A connected datagram socket would take an address all the same.
	{Name: "socketpair", Conditions: seccomp.ArgumentConditions{
		{Argument: 0, Operation: seccomp.Equal, Value: unix.AF_UNIX},
		{Argument: 1, Operation: seccomp.Equal, Value: unix.SOCK_SEQPACKET | unix.SOCK_CLOEXEC},
	}},
	// The process of a reader's thread. No other ioctl: /dev/fuse takes some,
	// FUSE_DEV_IOC_CLONE for example.
	{Name: "ioctl", Conditions: argument(1, seccomp.Equal, unix.PIDFD_GET_INFO)},
	// What Go advises, and package connection (runtime/mem_linux.go). MADV_REMOVE punches holes in
	// a file in memory, whose other mappings are then without these pages.
	{Name: "madvise", Conditions: argument(2, seccomp.Equal, unix.MADV_DONTNEED)},
	{Name: "madvise", Conditions: argument(2, seccomp.Equal, unix.MADV_FREE)},
	{Name: "madvise", Conditions: argument(2, seccomp.Equal, unix.MADV_HUGEPAGE)},
	{Name: "madvise", Conditions: argument(2, seccomp.Equal, unix.MADV_NOHUGEPAGE)},
	{Name: "madvise", Conditions: argument(2, seccomp.Equal, unix.MADV_COLLAPSE)},
	// The names of threads and, by Go, of mappings; and a new process must repeat
	// that nobody may dump it.
	{Name: "prctl", Conditions: argument(0, seccomp.Equal, unix.PR_SET_NAME)},
	{Name: "prctl", Conditions: argument(0, seccomp.Equal, unix.PR_SET_VMA)},
	{Name: "prctl", Conditions: seccomp.ArgumentConditions{
		{Argument: 0, Operation: seccomp.Equal, Value: unix.PR_SET_DUMPABLE},
		{Argument: 1, Operation: seccomp.Equal, Value: 0},
	}},
}

// conditionalForMounting are those besides that who mounts may make. It enters no other namespaces
// than of mounts. It makes one of these by clone(2), with a user namespace that it belongs to.
var conditionalForMounting = []seccomp.NameWithConditions{
	{Name: "clone", Conditions: seccomp.ArgumentConditions{
		{Argument: 0, Operation: seccomp.BitsSet, Value: unix.CLONE_NEWUSER},
		{Argument: 0, Operation: seccomp.BitsSet, Value: unix.CLONE_NEWNS},
		{Argument: 0, Operation: seccomp.BitsNotSet, Value: newNamespaces &^ (unix.CLONE_NEWUSER | unix.CLONE_NEWNS)},
	}},
	{Name: "unshare", Conditions: argument(0, seccomp.Equal, unix.CLONE_NEWNS)},
	{Name: "unshare", Conditions: argument(0, seccomp.Equal, unix.CLONE_FS)}, // of a thread, before it enters one
	{Name: "setns", Conditions: argument(1, seccomp.Equal, unix.CLONE_NEWNS)},
	{Name: "ioctl", Conditions: argument(1, seccomp.Equal, deviceClone)},
	{Name: "kcmp", Conditions: argument(2, seccomp.Equal, kcmpFile)},
	{Name: "socket", Conditions: seccomp.ArgumentConditions{
		{Argument: 0, Operation: seccomp.Equal, Value: unix.AF_UNIX},
		{Argument: 1, Operation: seccomp.Equal, Value: unix.SOCK_SEQPACKET | unix.SOCK_CLOEXEC},
	}},
	ownDescriptors,
}

const (
	kcmpFile    = 0          // include/uapi/linux/kcmp.h
	deviceClone = 0x8004e500 // linux/fuse.h, FUSE_DEV_IOC_CLONE
)

// filter is the source of one: what is allowed beside what serving needs.
type filter struct {
	name        string
	more        []string
	conditional []seccomp.NameWithConditions
}

var filters = []filter{
	{name: "serving"},
	{name: "serving-with-sockets", conditional: conditionalForSockets},
	{name: "mounting", more: forMounting, conditional: conditionalForMounting},
}

// policy answers everything else with EPERM.
func (f filter) policy(goarch string) seccomp.Policy {
	return seccomp.Policy{
		DefaultAction: seccomp.ActionErrno,
		Syscalls: []seccomp.SyscallGroup{{
			Action:             seccomp.ActionAllow,
			Names:              slices.Concat(allowed, allowedOn[goarch], f.more),
			NamesWithCondtions: slices.Concat(conditional, f.conditional),
		}},
	}
}
