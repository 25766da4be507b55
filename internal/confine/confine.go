// Package confine takes away from a process of the daemon everything that it does not need to
// serve. The daemon lives long, and every pod can talk to it through its files; an attacker
// who takes it over shall gain nothing.
//
// The call-out, which is root, has opened and mounted everything. It starts the process as
// root, so that no other user can stop, trace or read the process before it is confined. The
// first thing that the process does is to become a user of its own ([Become]). Then it gives up
// the rest ([Enter]):
//
//	user           one that no account has, no group, no capability in any set
//	no_new_privs   no program makes it more than it is (prctl(2))
//	not dumpable   nobody but root may trace it or look at its memory, before the change of
//	               user and after it
//	limits         descriptors, memory; no core file (getrlimit(2)). Those of package
//	               cgroup bound threads and memory of both processes
//	Landlock       reads its run directory, executes its own binary, and nothing
//	               else: no file can be written (landlock(7))
//	seccomp        the system calls that serving needs; EPERM for others. No socket
//	               can be made but a link, no address named in any call, and no
//	               descriptor sent to anybody (seccomp(2)); but see [SendFD]
//
// The processes that it starts inherit all of it, but for the dump, which execve(2) resets:
// they call [Repeat]. Landlock and seccomp must not be repeated, because they would pile up
// with each generation. Until it calls Repeat, such a process is not dumpable because its user
// cannot read its binary, whose mode is 0711 (fs/exec.c, would_dump). Two things make it
// dumpable meanwhile: a binary that its user can read, of which [Report] tells, and
// fs.suid_dumpable=1, a setting to debug a whole system.
//
// Kernels before 5.13 have no Landlock. The process serves all the same, and says
// what it goes without: [Of] reads back what is in force.
package confine

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/internal/packet"
)

// Rules say what a confined process may do beside serving.
type Rules struct {
	Read []string // files, and directories with all in them
	// Sockets lets it send descriptors, by SendFD alone.
	Sockets bool
}

// SendFD is the only descriptor on which a process with Sockets may call sendmsg(2). Landlock lets
// the process open the node's root directory by O_PATH, and a pod that was sent it could use it. No
// other file gets this number, because it is above the limit of descriptors. The socket is a
// connected one of packets, which ignores an address. Child processes inherit it.
const SendFD = 4096

// Sender is SendFD as a file. It stays the same one: the garbage collector would close another.
var Sender = sync.OnceValue(func() *os.File { return os.NewFile(SendFD, "the socket that sends descriptors") })

// Become gives this process the user, without groups and capabilities. It also replaces the
// caller's limits and score of the OOM killer, which the process would keep. sender is duplicated
// to SendFD; nil: the process sends no descriptors, and may have 128 of them open. A process of
// root's calls it before anything else. No process of the user can reach this one before it is not
// dumpable.
func Become(user User, sender *os.File) error {
	if os.Geteuid() != 0 || user.UID < firstUser || user.UID > lastUser || user.GID < firstUser {
		return fmt.Errorf("become the daemon's user: user %d is to become user %d", os.Geteuid(), user.UID)
	}
	if err := notDumpable(); err != nil {
		return err
	}
	setOOMScore()
	// Or khugepaged makes a huge page of the few pages that it has, and its memory grows by 2 MiB
	// (Debian's kernels do so for everybody). Its children inherit it; man 2 PR_SET_THP_DISABLE.
	_ = unix.Prctl(unix.PR_SET_THP_DISABLE, 1, 0, 0, 0)
	// A timer makes the runtime create its poller now, as root. The kernel counts its watches for
	// the user that created it, and nobody of the daemon's user can use those up.
	time.Sleep(time.Nanosecond)
	if sender != nil {
		if err := placeSender(sender); err != nil {
			return fmt.Errorf("confine the daemon: have the socket by which it sends descriptors as number %d: %w", SendFD, err)
		}
	}
	if err := limit(sender != nil); err != nil {
		return err
	}
	// Of package syscall, which changes all threads.
	if err := syscall.Setgroups(nil); err != nil {
		return fmt.Errorf("become the daemon's user: setgroups: %w", err)
	}
	gid, uid := int(user.GID), int(user.UID)
	if err := syscall.Setresgid(gid, gid, gid); err != nil {
		return fmt.Errorf("become the daemon's user: setresgid: %w", err)
	}
	if err := syscall.Setresuid(uid, uid, uid); err != nil {
		return fmt.Errorf("become the daemon's user: setresuid: %w", err)
	}
	// The change of user has set what fs.suid_dumpable says (kernel/cred.c, commit_creds).
	if err := notDumpable(); err != nil {
		return err
	}
	// The change of user leaves the inheritable ones, and where securebits(7) say so, the others
	// (capabilities(7)).
	if err := setCapabilities(0); err != nil {
		return fmt.Errorf("confine the daemon: capset: %w", err)
	}
	return nil
}

// Enter confines this process with all its threads, for good. problems name the measures that
// this kernel lacks. An error is a measure that every kernel has: the process must not go on.
func Enter(program string, rules Rules) (problems []string, err error) {
	if os.Geteuid() == 0 || os.Getegid() == 0 {
		return nil, errors.New("confine the daemon: it runs as root; it must become a user of its own first")
	}
	if err := Repeat(program); err != nil {
		return nil, err
	}
	// A standby is executed from there, by this user.
	if err := unix.Access(self, unix.X_OK); err != nil {
		return nil, fmt.Errorf("user %d must be allowed to execute the binary: %w; chmod 0711", os.Geteuid(), err)
	}
	if unix.Access(self, unix.R_OK) == nil {
		problems = append(problems, "everybody can read the binary, so that a process of the daemon's user can trace "+
			"a standby which has just been started: chmod 0711")
	}
	if err := inAll(unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1); err != nil {
		return nil, fmt.Errorf("confine the daemon: no_new_privs: %w", err)
	}
	if err := restrictFiles(rules); err != nil {
		problems = append(problems, fmt.Sprintf("Landlock: %v", err))
	}
	filter := "serving"
	if rules.Sockets {
		filter = "serving-with-sockets"
	}
	if err := install(filter); err != nil {
		problems = append(problems, fmt.Sprintf("seccomp: %v", err))
	}
	return problems, nil
}

// Repeat confines a process that a confined one started. execve(2) makes it dumpable, and
// names it after /proc/self/exe; its name shall be the program's.
func Repeat(program string) error {
	name, err := unix.BytePtrFromString(program)
	if err != nil {
		return err
	}
	// Of each thread, because ps shows that of the first, and this may be another.
	err = inAll(unix.SYS_PRCTL, unix.PR_SET_NAME, uintptr(unsafe.Pointer(name)))
	runtime.KeepAlive(name)
	if err != nil {
		return fmt.Errorf("name the daemon: %w", err)
	}
	return notDumpable()
}

func notDumpable() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("confine the daemon: not dumpable: %w", err)
	}
	return nil
}

// self is the binary that this process executes.
const self = "/proc/self/exe"

// KeepCapabilities gives up all capabilities but some, which root's process has, for all that it
// starts as well. Go tells each thread by a queued signal, and root of a pod may have used up those
// of its user: see limits.
func KeepCapabilities(some []uint) error {
	if err := setLimit(unix.RLIMIT_SIGPENDING, forever); err != nil {
		return fmt.Errorf("limit queued signals of the user: %w", err)
	}
	var mask uint64
	for _, capability := range some {
		mask |= 1 << capability
	}
	for c := uint(0); c < 64; c++ {
		there, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, uintptr(c), 0, 0, 0)
		if err != nil {
			break // the kernel knows no more
		}
		if there == 1 && mask&(1<<c) == 0 {
			if err := inAll(unix.SYS_PRCTL, unix.PR_CAPBSET_DROP, uintptr(c)); err != nil {
				return fmt.Errorf("drop capability %d: %w", c, err)
			}
		}
	}
	if err := setCapabilities(mask); err != nil {
		return fmt.Errorf("drop capabilities: %w", err)
	}
	return nil
}

// setCapabilities gives each thread those of a mask, as effective and permitted ones, and no
// inheritable one.
func setCapabilities(mask uint64) error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var sets [2]unix.CapUserData
	for i := range sets {
		part := uint32(mask >> (32 * i))
		sets[i] = unix.CapUserData{Effective: part, Permitted: part}
	}
	return inAll(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&header)), uintptr(unsafe.Pointer(&sets[0])))
}

// inAll makes a system call in every thread of the process, which concerns one only. What its
// arguments point to is on the heap: a stack can move.
//
//go:uintptrescapes
func inAll(number, a, b uintptr) error {
	// Without cgo, the runtime knows all threads. With it, this is ENOTSUP.
	_, _, errno := syscall.AllThreadsSyscall6(number, a, b, 0, 0, 0, 0)
	if errno == unix.ENOTSUP {
		return fmt.Errorf("%w: the binary must be built with CGO_ENABLED=0", errno)
	} else if errno != 0 {
		return errno
	}
	return nil
}

// forever is no limit.
const forever = unix.RLIM_INFINITY

// limits replace those of the process that was the first to call the driver, which the pair
// would keep for as long as the node lives. The first ones bound the node's resources that a
// process of the pair can take, far above its needs. The kernel counts none of them for the
// user, which other processes may have; see package cgroup for threads, and for the memory of
// both.
var limits = []struct {
	name     string
	resource int
	most     uint64
}{
	{"descriptors", unix.RLIMIT_NOFILE, 128},         // it has about 20
	{"bytes of memory", unix.RLIMIT_DATA, 512 << 20}, // Go reserves 64 MiB at a time
	{"bytes of a core file", unix.RLIMIT_CORE, 0},
	{"bytes of messages", unix.RLIMIT_MSGQUEUE, 0},
	// The buffers of requests (connection.Options.LockedMemory), where they are the largest.
	{"bytes of locked memory", unix.RLIMIT_MEMLOCK, 1 << 20},

	{"seconds of a processor", unix.RLIMIT_CPU, forever},
	{"bytes of a file", unix.RLIMIT_FSIZE, forever},
	{"bytes of addresses", unix.RLIMIT_AS, forever},
	// The kernel counts these for the user, whom other processes may be, too: threads, and
	// queued signals. Go makes a system call on all threads by a real-time signal, which is lost
	// for ever where the queue is full (kernel/signal.c, __sigqueue_alloc).
	{"threads of the user", unix.RLIMIT_NPROC, forever},
	{"queued signals of the user", unix.RLIMIT_SIGPENDING, forever},
}

// placeSender duplicates a socket to SendFD, before that is above the limit.
func placeSender(socket *os.File) error {
	if err := syscall.Setrlimit(unix.RLIMIT_NOFILE, &syscall.Rlimit{Cur: SendFD + 1, Max: SendFD + 1}); err != nil {
		return fmt.Errorf("raise the limit of descriptors (LimitNOFILE= of the kubelet's unit): %w", err)
	}
	number, err := packet.Number(socket)
	if err != nil {
		return err
	}
	if kind, err := unix.GetsockoptInt(number, unix.SOL_SOCKET, unix.SO_TYPE); err != nil {
		return os.NewSyscallError("getsockopt", err)
	} else if kind != unix.SOCK_SEQPACKET {
		return unix.EPROTOTYPE
	}
	if _, err := unix.Getpeername(number); err != nil { // one that listens has none
		return os.NewSyscallError("getpeername", err)
	}
	return os.NewSyscallError("dup3", unix.Dup3(number, SendFD, 0))
}

// limit sets the limits. Too few descriptors for a sender, placeSender has refused.
func limit(sockets bool) error {
	for _, l := range limits {
		if sockets && l.resource == unix.RLIMIT_NOFILE {
			l.most = SendFD
		}
		if err := setLimit(l.resource, l.most); err != nil {
			return fmt.Errorf("limit %s to %d: %w", l.name, l.most, err)
		}
	}
	return nil
}

// setLimit sets a limit. A hard one that is lower stays where this process, which is root's, has no
// CAP_SYS_RESOURCE.
func setLimit(resource int, most uint64) error {
	// The standard library's, which then does not give children the old limit of descriptors back.
	err := syscall.Setrlimit(resource, &syscall.Rlimit{Cur: most, Max: most})
	if errors.Is(err, unix.EPERM) {
		var now syscall.Rlimit
		if err = syscall.Getrlimit(resource, &now); err == nil {
			most = min(now.Max, most)
			err = syscall.Setrlimit(resource, &syscall.Rlimit{Cur: most, Max: most})
		}
	}
	return err
}

// setOOMScore gives the process the score that the kubelet gives itself: all pods are killed
// before it. Without CAP_SYS_RESOURCE, a score of 0 may still be less than the caller's. status
// shows which one it is.
func setOOMScore() {
	for _, score := range []string{"-999", "0"} {
		if os.WriteFile("/proc/self/oom_score_adj", []byte(score), 0) == nil {
			return
		}
	}
}
