package pair

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/internal/confine"
	"example.com/pod-info-fuse/internal/proc"
)

// A call-out is root, and an attacker may have taken over the pair that it hears from. So it
// believes no PID: it opens the process, looks whose it is, and takes a descriptor only if
// the kernel says that it is the right one.

// errNotDaemons says that a process is of another user than the daemon's.
var errNotDaemons = errors.New("not of the daemon's")

// hold opens a process, which must be of the daemon's user. nil: there is none.
func (at Place) hold(pid int) (*proc.Process, error) {
	if pid == 0 {
		return nil, nil
	}
	p, err := proc.Open(pid)
	if errors.Is(err, unix.ESRCH) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	report, err := confine.Of(pid)
	switch {
	case p.Ended(0): // another process may have had the number when we looked
		p.Close()
		return nil, nil
	case err == nil && report.UID != at.User.UID:
		err = fmt.Errorf("process %d is of user %d, and %w", pid, report.UID, errNotDaemons)
	}
	if err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

// endAll waits until processes have ended, and kills those that do not by themselves.
func endAll(all ...*proc.Process) (left error) {
	const leaving, dying = time.Second / 2, 2 * time.Second
	within := func(deadline time.Time) {
		all = slices.DeleteFunc(all, func(p *proc.Process) bool { return p == nil || p.Ended(time.Until(deadline)) })
	}
	within(time.Now().Add(leaving))
	for _, p := range all {
		left = errors.Join(left, p.Kill())
	}
	within(time.Now().Add(dying))
	for _, p := range all {
		left = errors.Join(left, fmt.Errorf("process %d, which was to end, was killed and does not end", p.PID))
	}
	return left
}

// Kill kills a process of the daemon's user, and none of another one. It calls still once no other
// process can get the PID, and kills nothing if the answer is no.
func (at Place) Kill(pid int, still func() bool) error {
	p, err := at.hold(pid)
	switch {
	case errors.Is(err, errNotDaemons):
		return nil
	case p == nil:
		return err
	}
	defer p.Close()
	if !still() {
		return nil
	}
	return p.Kill()
}

// Inspect calls a function that reads what /proc tells of a process that the pair has named. It is
// an error if the kernel does not confirm that the process is the pair's: it must be of the
// daemon's user, and it or its parent must have one of the locks. A new standby has none yet, and
// none at all while the process that serves has to keep the standby's; but it is a child of that.
// No other process has had the PID until the function returned, or Inspect returns an error.
func (at Place) Inspect(pid int, read func() error) error {
	p, err := at.hold(pid)
	if err != nil {
		return err
	} else if p == nil {
		return fmt.Errorf("there is no process %d", pid)
	}
	defer p.Close()
	locks, err := at.Find()
	if err != nil {
		return err
	}
	status, err := proc.StatusIn(fmt.Sprintf("/proc/%d", pid))
	if err != nil {
		return err
	}
	if parent, _ := strconv.Atoi(status["PPid"]); !locks.name(pid) && !locks.name(parent) {
		return fmt.Errorf("neither process %d nor its parent has a lock of the daemon's", pid)
	}
	if err := read(); err != nil {
		return err
	}
	if p.Ended(0) {
		return fmt.Errorf("process %d has ended", pid)
	}
	return nil
}

// take duplicates a descriptor of a process, which must be the right one according to check. The
// kernel would count descriptors that were sent, while in flight, with those of all processes of
// the user (net/unix/scm.c, too_many_unix_fds).
func take(p *proc.Process, number int, check func(fd int) error) (fd int, err error) {
	fd, err = p.Take(number)
	switch {
	case err == nil:
		if err = check(fd); err != nil {
			unix.Close(fd)
		}
	case errors.Is(err, unix.EPERM):
		err = fmt.Errorf("%w; the driver needs CAP_SYS_PTRACE, and kernel.yama.ptrace_scope must not be 3", err)
	}
	if err != nil {
		return -1, fmt.Errorf("take descriptor %d of process %d: %w", number, p.PID, err)
	}
	return fd, nil
}

// checkDevice checks that a descriptor is /dev/fuse, and the connection of the mount with this
// device number.
func checkDevice(fd int, mount uint64) error {
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	switch {
	case err != nil:
		return os.NewSyscallError("fcntl", err)
	case !isFUSE(fd) || flags&unix.O_ACCMODE != unix.O_RDWR:
		return errors.New("it is not /dev/fuse, open for reading and writing")
	}
	info, err := os.ReadFile(fmt.Sprintf("/proc/self/fdinfo/%d", fd))
	if err != nil {
		return err
	}
	// Linux 6.17 and later tell (fs/fuse/dev.c, fuse_dev_show_fdinfo), as the kernel keeps
	// a device number: major << 20 | minor.
	for line := range bytes.Lines(info) {
		var connection uint64
		if n, _ := fmt.Sscanf(string(line), "fuse_connection:%d", &connection); n == 1 &&
			unix.Mkdev(uint32(connection>>20), uint32(connection&(1<<20-1))) != mount {
			return errors.New("it is the connection of another mount")
		}
	}
	return nil
}

// isFUSE tells whether a descriptor is /dev/fuse: 10:229 in
// Documentation/admin-guide/devices.txt.
func isFUSE(fd int) bool {
	var stat unix.Stat_t
	err := unix.Fstat(fd, &stat)
	return err == nil && stat.Mode&unix.S_IFMT == unix.S_IFCHR && uint64(stat.Rdev) == unix.Mkdev(10, 229)
}

// checkListener checks that a descriptor is the socket that listens at the path.
func checkListener(fd int, path string) error {
	listens, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ACCEPTCONN)
	if err != nil || listens != 1 {
		return errors.New("it is not a socket that listens")
	}
	// The name that the socket was bound to. SIOCUNIXFILE would tell which file that is now,
	// but needs CAP_NET_ADMIN. The daemon can make no listener, and nobody can send it one.
	bound, err := unix.Getsockname(fd)
	if err != nil {
		return os.NewSyscallError("getsockname", err)
	}
	if name, is := bound.(*unix.SockaddrUnix); !is || name.Name != path {
		return errors.New("it does not listen at " + path)
	}
	return nil
}
