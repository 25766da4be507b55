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

	"example.com/pod-info-fuse/internal/proc"
	"example.com/pod-info-fuse/podfuse/wire"
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

// mostThreads are looked at for an order.
const mostThreads = 8192

// creating returns the names that threads in a volume's containers are about to make, and which threads
// may be about to. They may be anywhere.
//
// A child reads the threads' memory, which may be a file of a program that does not answer: not even
// SIGKILL ends that. As long as it has not ended, nobody looks for the volume again.
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
	var namespaces []string
	err = m.eachContainer(record, func(p *process, _ []standIn) error {
		name, err := proc.Link(p.pid, "ns/mnt")
		if err == nil && p.alive() == nil {
			namespaces = append(namespaces, name)
		}
		return nil
	})
	if err != nil || len(namespaces) == 0 {
		looked()
		return done, err
	}
	all := len(namespaces) <= mostViews
	namespaces = namespaces[:min(len(namespaces), mostViews)]
	c, err := m.dispatch(job{Kind: "creating", Namespaces: namespaces, Pod: plainUID(record.PodUID)})
	if err != nil {
		looked()
		return done, fmt.Errorf("start a child: %w", err)
	}
	go func() {
		<-c.ended
		looked()
	}()
	done, err = c.wait(childTime)
	done.All = done.All && all
	return done, err
}

// mostViews are looked at for an order.
const mostViews = 64

// namesMade is the errand of the child.
func namesMade(j job) (done result, err error) {
	threads, calls := mostThreads, paths()
	done.All = true
	for _, number := range numbersIn("/proc") {
		dir := "/proc/" + number
		pid, _ := strconv.Atoi(number)
		if _, may := ofPod(pid, j.Pod); !may {
			continue
		}
		name, err := namespaceOf(pid)
		switch {
		case errors.Is(err, proc.ErrExecutes): // it has one thread, which makes no name now
		case proc.IsUntold(err), isEnded(err) && len(numbersIn(dir+"/task")) > 1:
			done.All = false // some of its threads have ended, and it is not known where the others are
		}
		// Where a security module lets nobody ask about a process, no container is attached, either.
		if err != nil || !slices.Contains(j.Namespaces, name) {
			continue
		}
		for _, thread := range numbersIn(dir + "/task") {
			if threads--; threads < 0 || len(done.Names) == wire.MostNames || len(done.Threads) == wire.MostThreads {
				done.All = false
				return done, nil
			}
			made, err := proc.Ask(pid, func() (making, error) { return nameMade(dir+"/task/"+thread, calls), nil })
			if !made.may && !errors.Is(err, proc.ErrHangs) {
				continue
			}
			number, _ := strconv.ParseUint(thread, 10, 32)
			done.Threads = append(done.Threads, uint32(number))
			if made.name != nil && !slices.ContainsFunc(done.Names, func(name []byte) bool { return bytes.Equal(name, made.name) }) {
				done.Names = append(done.Names, made.name)
			}
		}
	}
	return done, nil
}

// namespaceOf is the mount namespace of a process: where its first thread has ended, that of the last one.
func namespaceOf(pid int) (name string, err error) {
	if name, err = proc.Link(pid, "ns/mnt"); !isEnded(err) {
		return name, err
	}
	threads := numbersIn(fmt.Sprintf("/proc/%d/task", pid))
	if len(threads) < 2 {
		return "", err
	}
	last := fmt.Sprintf("/proc/%d/task/%s/ns/mnt", pid, threads[len(threads)-1])
	return proc.Ask(pid, func() (string, error) { return os.Readlink(last) })
}

// making is what a thread is about to make. It may be wrong by the time that the caller has it: who
// waits is asked about.
type making struct {
	may  bool   // it makes a name, or may be about to: it runs
	name []byte // the last one of its path; nil, if it is not known
}

func nameMade(task string, calls map[int64]int) making {
	text, err := os.ReadFile(task + "/syscall") // man 5 proc_pid_syscall
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
	address, err := strconv.ParseUint(fields[1+argument], 0, 64)
	if err != nil {
		return making{may: true}
	}
	pid, _ := strconv.Atoi(path.Base(task))
	where := textAt(pid, uintptr(address))
	if base := path.Base(string(where)); where != nil && len(base) <= longestName {
		return making{true, []byte(base)}
	}
	return making{may: true}
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

// numbersIn lists what is called by a number.
func numbersIn(dir string) []string {
	names, _ := readNames(dir)
	return slices.DeleteFunc(names, func(name string) bool { return name[0] < '0' || name[0] > '9' })
}
