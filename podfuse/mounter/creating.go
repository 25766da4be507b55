package mounter

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/internal/mount"
	"example.com/pod-info-fuse/internal/proc"
	"example.com/pod-info-fuse/podfuse/wire"
	"example.com/pod-info-fuse/survive/volume"
)

// mkdir(2) and its like look a name up before they make it, and do not walk the path again when
// that look-up, and nothing else, is answered ESTALE (fs/namei.c, filename_create). So the pair has
// to tell such a look-up from the step of a walk, and on the connection of a dead program nothing
// tells who asks. But whoever asks waits in the kernel, and the kernel tells root in which system
// call, and where its path is.

// paths are the system calls that make a name, and which argument is its path.
func paths() map[int64]int {
	all := map[int64]int{unix.SYS_MKDIRAT: 1, unix.SYS_MKNODAT: 1, unix.SYS_SYMLINKAT: 2, unix.SYS_LINKAT: 3}
	if runtime.GOARCH == "amd64" { // mkdir, mknod, symlink, link: arch/x86/entry/syscalls/syscall_64.tbl
		for number, argument := range map[int64]int{83: 0, 133: 0, 88: 1, 86: 1} {
			all[number] = argument
		}
	}
	return all
}

// longestName is what the kernel takes (linux/limits.h, NAME_MAX), in bytes.
const longestName = 255

const (
	// mostThreads are looked at for an order.
	mostThreads = 8192
	// mostMoreHidden are processes that stop answering while they are looked at: each takes proc.AskTime of an order.
	mostMoreHidden = 4
)

// creating returns the names that threads in a volume's containers are about to make, and which threads
// may be about to. They may be anywhere.
//
// Mostly there are none. Of those that there are, a child reads the memory, which may be a file of a program
// that does not answer: not even SIGKILL ends that. As long as it has not ended, nobody looks for the volume
// again.
func (m *mounter) creating(o *order) (done result, err error) {
	record, err := m.Clients().Get(o.Volume)
	if err != nil {
		return done, err
	}
	looks := false
	m.do(func() {
		c := m.client(o.Volume)
		looks, c.looks = c.looks, true
	})
	if looks {
		return done, errors.New("the memory of its threads is being read, or cannot be: a file system in its containers does not answer")
	}
	looked := func() {
		m.do(func() {
			m.client(o.Volume).looks = false
			m.tidy(o.Volume)
		})
	}
	makers, done, err := m.makersOf(record)
	if err != nil || len(makers) == 0 {
		looked()
		return done, err
	}
	c, named, err := m.carryOut(childTime, job{Kind: "names", Makers: makers})
	if c == nil {
		looked()
		return result{}, err
	}
	go func() {
		<-c.ended
		looked()
	}()
	if err != nil {
		return result{}, err
	}
	done.Names, done.All = named.Names, done.All && named.All
	return done, nil
}

// maker is a thread that waits in a system call which makes a name, and where in its memory the path is.
type maker struct {
	Thread int    `json:"thread"`
	Path   uint64 `json:"path"`
}

// makersOf returns those that may be in a volume's containers, and of a result all but the names. Readers wait for it:
// whether a container of the pod has that volume is not asked.
func (m *mounter) makersOf(record volume.Record) (makers []maker, done result, err error) {
	own, others, err := m.cgroupOf(record).processes()
	if err != nil {
		return nil, done, err
	}
	all := placesOf(slices.Concat(own, others))
	var namespaces []string
	for _, one := range all[:len(own)] {
		if one.err == nil && !slices.Contains(namespaces, one.namespace) {
			namespaces = append(namespaces, one.namespace)
		}
	}
	if len(own) == 0 { // the kubelet gives pods no cgroup of their own
		err = m.eachContainer(record, func(p *process, _ []standIn) error {
			name, err := proc.Link(p.pid, "ns/mnt")
			if err == nil && p.alive() == nil {
				namespaces = append(namespaces, name)
			}
			return nil
		})
	}
	host, hostErr := os.Readlink("/proc/self/ns/mnt")
	if err = errors.Join(err, hostErr); err != nil {
		return nil, done, err
	}
	namespaces = slices.DeleteFunc(namespaces, func(name string) bool { return name == host })
	if len(namespaces) == 0 {
		return nil, done, nil
	}
	makers, done = makersIn(all, namespaces)
	return makers, done, nil
}

// where is the mount namespace that a process is in, or why it is not known.
type where struct {
	pid       int
	namespace string
	err       error
}

// placesOf tells it of processes. Where the first thread of one has ended, it is that of the last one.
func placesOf(pids []int) []where {
	all := make([]where, len(pids))
	names, errs := mount.NamesOf(pids, mostHidden)
	for i, pid := range pids {
		all[i] = where{pid, names[i], errs[i]}
		if !isEnded(errs[i]) {
			continue
		}
		if threads, _ := threadsOf(pid); len(threads) > 1 {
			last := fmt.Sprintf("/proc/%d/task/%s/ns/mnt", pid, threads[len(threads)-1])
			all[i].namespace, all[i].err = proc.Ask(pid, func() (string, error) { return os.Readlink(last) })
		}
	}
	return all
}

// makersIn does so for those of some processes that are in some mount namespaces.
func makersIn(all []where, namespaces []string) (makers []maker, done result) {
	left, calls := mostThreads, paths()
	done.All = true
	hidden := 0
	for _, one := range all {
		pid, err := one.pid, one.err
		switch {
		case errors.Is(err, proc.ErrExecutes): // it has one thread, which makes no name now
		case proc.IsUntold(err), proc.IsShort(err):
			done.All = false
		case isEnded(err):
			if threads, _ := threadsOf(pid); len(threads) > 1 {
				done.All = false // some of its threads have ended, and it is not known where the others are
			}
		}
		// Where a security module lets nobody ask about a process, no container is attached, either.
		if err != nil || !slices.Contains(namespaces, one.namespace) {
			continue
		}
		threads, err := threadsOf(pid)
		if err != nil && !isEnded(err) {
			done.All = false
		}
		const atATime = 256 // or a process that has very many would seem to hang
		for some := range slices.Chunk(threads, atATime) {
			if left -= len(some); left < 0 {
				done.All = false
				return makers, done
			}
			seen, err := proc.Ask(pid, func() ([]making, error) { return makingOf(pid, some, calls), nil })
			if errors.Is(err, proc.ErrHangs) {
				if hidden++; hidden == mostMoreHidden {
					done.All = false
					return makers, done
				}
				seen = make([]making, len(some))
				for i := range seen {
					seen[i].may = true
				}
			}
			for i, made := range seen {
				if !made.may {
					continue
				}
				if len(done.Threads) == wire.MostThreads {
					done.All = false
					return makers, done
				}
				thread, _ := strconv.Atoi(some[i])
				done.Threads = append(done.Threads, uint32(thread))
				if made.path != 0 {
					makers = append(makers, maker{thread, made.path})
				}
			}
		}
	}
	return makers, done
}

// making is what a thread is about to make. It may be wrong by the time that the caller has it: who
// waits is asked about.
type making struct {
	may  bool   // it makes a name, or may be about to: it runs
	path uint64 // where in its memory the path is; 0, if it is not known
}

// makingOf tells it of some threads of a process. It is a question for Ask.
func makingOf(pid int, threads []string, calls map[int64]int) []making {
	all := make([]making, len(threads))
	for i, thread := range threads {
		all[i] = makingIn(fmt.Sprintf("/proc/%d/task/%s", pid, thread), calls)
	}
	return all
}

func makingIn(task string, calls map[int64]int) making {
	text, err := proc.Read(task+"/syscall", make([]byte, 0, 256), 1<<10) // man 5 proc_pid_syscall
	if err != nil {
		return making{may: !isEnded(err)}
	}
	fields := strings.Fields(string(text))
	if len(fields) < 2 {
		return making{may: true} // it runs
	}
	number, err := strconv.ParseInt(fields[0], 10, 64)
	argument, makes := calls[number]
	if err != nil || !makes || len(fields) <= 1+argument {
		return making{}
	}
	path, _ := strconv.ParseUint(fields[1+argument], 0, 64)
	return making{true, path}
}

// namesMade is the errand of the child: the last one of each path.
func namesMade(j job) (done result, err error) {
	done.All = true
	for _, made := range j.Makers {
		text := textAt(made.Thread, uintptr(made.Path))
		name := []byte(path.Base(string(text)))
		switch {
		case text == nil || len(name) > longestName || slices.ContainsFunc(done.Names, func(other []byte) bool { return bytes.Equal(other, name) }):
		case len(done.Names) == wire.MostNames:
			done.All = false
			return done, nil
		default:
			done.Names = append(done.Names, name)
		}
	}
	return done, nil
}

// textAt reads a path out of a thread's memory; nil: there is none.
func textAt(thread int, address uintptr) (text []byte) {
	page := uintptr(os.Getpagesize())
	for len(text) < unix.PathMax {
		chunk := make([]byte, page-address%page)
		local := []unix.Iovec{{Base: &chunk[0]}}
		local[0].SetLen(len(chunk))
		n, err := unix.ProcessVMReadv(thread, local, []unix.RemoteIovec{{Base: address, Len: len(chunk)}}, 0)
		if err != nil || n == 0 {
			return nil
		}
		before, _, ended := bytes.Cut(chunk[:n], []byte{0})
		if text = append(text, before...); ended {
			return text
		}
		address += uintptr(n)
	}
	return nil
}
