package mount

import (
	"bufio"
	"errors"
	"fmt"
	"math"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/internal/proc"
)

// Namespace is a mount namespace, seen through a process that is in it.
type Namespace struct {
	PID  int
	Name string // the kernel's, such as mnt:[4026531841]; "" for Own, and where it is not told
	Ours bool   // this process is in it
}

// Own is the mount namespace of this process.
func Own() Namespace { return Namespace{PID: os.Getpid(), Ours: true} }

// Of is the mount namespace of a process.
func Of(pid int) (Namespace, error) {
	own, err := os.Readlink("/proc/self/ns/mnt")
	if err != nil {
		return Namespace{}, err
	}
	name, err := proc.Link(pid, "ns/mnt")
	return Namespace{PID: pid, Name: name, Ours: name == own}, err
}

// Others returns the mount namespaces of all other processes, one each, or the error that it cannot
// know all. Those of untold have no name: they are of processes that cannot be asked about now
// (package proc, Ask), one each, and may be among the others. Their mounts can be listed, but
// nobody can enter.
func Others() (all, untold []Namespace, err error) {
	pids, err := proc.PIDs()
	if err != nil {
		return nil, nil, err
	}
	return OthersOf(pids, math.MaxInt)
}

// atOnce is how many processes are asked at a time: whoever hides takes [proc.AskTime], and there
// may be hundreds that want to.
const atOnce = 128

// OthersOf returns those of some processes. When so many of these have not answered at all, no more
// are asked: each may leave a thread.
func OthersOf(pids []int, most int) (all, untold []Namespace, err error) {
	own, err := os.Readlink("/proc/self/ns/mnt")
	if err != nil {
		return nil, nil, err
	}
	seen := map[string]bool{own: true}
	var short error
	ask := func(pids []int) (again []int) {
		names, errs := namesOf(pids, most)
		for i, pid := range pids {
			switch {
			case proc.IsUntold(errs[i]):
				again = append(again, pid)
			case proc.IsShort(errs[i]):
				short = errs[i]
			case errs[i] != nil || seen[names[i]]: // it has ended, or its namespace is known
			default:
				seen[names[i]] = true
				all = append(all, Namespace{PID: pid, Name: names[i]})
			}
		}
		return again
	}
	pids = ask(pids)
	// Most execute something for less than a millisecond.
	for pause := 200 * time.Microsecond; len(pids) > 0 && pause < 20*time.Millisecond; pause *= 4 {
		time.Sleep(pause)
		pids = ask(pids)
	}
	if short != nil { // who takes some for all forgets what is mounted in the others
		return nil, nil, short
	}
	for _, pid := range pids {
		untold = append(untold, Namespace{PID: pid})
	}
	return all, untold, nil
}

// namesOf returns the names of processes' mount namespaces. When so many of them have not answered
// at all, the error of those that are not asked any more is [proc.ErrHangs], too.
func namesOf(pids []int, most int) (names []string, errs []error) {
	names, errs = make([]string, len(pids)), make([]error, len(pids))
	var group sync.WaitGroup
	var hang atomic.Int64
	turns := make(chan struct{}, min(atOnce, most))
	for i, pid := range pids {
		turns <- struct{}{}
		if hang.Load() >= int64(most) {
			errs[i] = proc.ErrHangs
			<-turns
			continue
		}
		group.Go(func() {
			if names[i], errs[i] = proc.Link(pid, "ns/mnt"); errors.Is(errs[i], proc.ErrHangs) {
				hang.Add(1)
			}
			<-turns
		})
	}
	group.Wait()
	return names, errs
}

// Mounts lists the namespace's mounts of a type and a source. Paths are as its
// process sees them.
func (n Namespace) Mounts(fsType, source string) (all []*mountinfo.Info, err error) {
	return n.mounts(mostTable, func(info *mountinfo.Info) (skip, stop bool) {
		return info.FSType != fsType || info.Source != source, false
	})
}

// All lists all of its mounts, unless mountinfo has so many bytes or more.
func (n Namespace) All(most int) ([]*mountinfo.Info, error) { return n.mounts(most, nil) }

// mostTable is how long another namespace's mountinfo may not be, in bytes. A pod can have 100,000
// mounts (man 5 proc_sys_fs, mount-max), of two paths of a page each, and of any type and source. A
// node agent that sees all containers has 1.5 KB for the root directory of each, if its image has
// twenty layers: 5,000 of them.
const mostTable = 8 << 20

// ErrLong says that the mountinfo of a namespace is too long to be read.
var ErrLong = errors.New("the container has too many mounts; start it anew with fewer")

// LocalMount returns the mount point that a path without links leads to last. The error is
// [ErrNotLocal] where the server of a mount on the way may be a process or another machine,
// which may never answer.
func (n Namespace) LocalMount(path string) (point string, err error) {
	root, err := Open("/")
	if err != nil {
		return "", err
	}
	defer root.Close()
	point = "/"
	all, err := n.mounts(mostTable, mountinfo.ParentsFilter(path))
	for _, info := range all {
		// The file system of / answers, whatever its type, or the node does not run.
		if !isLocal(info.FSType) && unix.Mkdev(uint32(info.Major), uint32(info.Minor)) != root.Device() {
			return "", fmt.Errorf("it %w, but of type %s, which is mounted on %s", ErrNotLocal, info.FSType, info.Mountpoint)
		}
		if len(info.Mountpoint) > len(point) {
			point = info.Mountpoint
		}
	}
	return point, err
}

// mounts reads less than so many bytes of another namespace's mountinfo. Only root makes ours long.
func (n Namespace) mounts(most int, filter mountinfo.FilterFunc) ([]*mountinfo.Info, error) {
	process := strconv.Itoa(n.PID)
	if n.Ours { // also where /proc is of another PID namespace
		process, most = "self", math.MaxInt
	}
	table, err := os.OpenFile("/proc/"+process+"/mountinfo", os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer table.Close()
	return mountinfo.GetMountsFromReader(&shortLines{all: bufio.NewReaderSize(table, 32<<10), left: most}, filter)
}

// shortLines leaves out the lines that do not fit into the reader's buffer. A mount point can be
// deeper than PATH_MAX, by mkdir(2) and chdir(2) in turn; nobody gets there by its path, and a
// Scanner would fail at it. After so many bytes, it fails with ErrLong.
type shortLines struct {
	all  *bufio.Reader
	line []byte // what is left of it
	left int    // how many bytes all may have
}

func (s *shortLines) Read(p []byte) (int, error) {
	for long := false; len(s.line) == 0; {
		line, err := s.all.ReadSlice('\n')
		if s.left -= len(line); s.left <= 0 {
			return 0, ErrLong
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			long = true
		case long:
			long = false // that was its end
		case len(line) == 0:
			return 0, err
		default:
			s.line = line
		}
	}
	n := copy(p, s.line)
	s.line = s.line[n:]
	return n, nil
}

// Open opens the namespace. The descriptor keeps it, whatever its processes do, and
// can be locked: all descriptors of one namespace share the lock.
func (n Namespace) Open() (*os.File, error) {
	path := fmt.Sprintf("/proc/%d/ns/mnt", n.PID)
	file, err := proc.Ask(n.PID, func() (*os.File, error) {
		fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		return os.NewFile(uintptr(fd), path), err
	})
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	if now, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", file.Fd())); err != nil || now != n.Name {
		file.Close()
		return nil, fmt.Errorf("process %d is not in %s any more", n.PID, n.Name)
	}
	return file, nil
}

// Users opens the user namespace that a mount namespace belongs to (ioctl_ns(2)).
func Users(namespace *os.File) (*os.File, error) {
	fd, err := unix.IoctlRetInt(int(namespace.Fd()), unix.NS_GET_USERNS)
	if err != nil {
		return nil, os.NewSyscallError("ioctl NS_GET_USERNS", err)
	}
	unix.CloseOnExec(fd)
	return os.NewFile(uintptr(fd), "user namespace"), nil
}

// OwnUsers opens the user namespace of this process.
func OwnUsers() (*os.File, error) {
	const path = "/proc/self/ns/user"
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	return os.NewFile(uintptr(fd), path), nil
}

// Do calls a function on a thread that is in the namespace, and that has a working
// directory of its own.
func (n Namespace) Do(f func() error) error {
	if n.Ours {
		return proc.OnThread(f)
	}
	namespace, err := n.Open()
	if err != nil {
		return err
	}
	defer namespace.Close()
	return Inside(int(namespace.Fd()), f)
}

// Inside does the same in a namespace that is open, by its descriptor.
func Inside(namespace int, f func() error) error {
	return proc.OnThread(func() error {
		if err := unix.Setns(namespace, unix.CLONE_NEWNS); err != nil {
			return os.NewSyscallError("enter the mount namespace: setns", err)
		}
		return f()
	})
}
