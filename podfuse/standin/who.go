package standin

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/internal/proc"
	"example.com/pod-info-fuse/podfuse"
	"example.com/pod-info-fuse/podfuse/wire"
	"example.com/pod-info-fuse/survive/volume"
)

// processes tell whose view a process has: its container's, or the host's. That takes no
// privilege: anybody may read /proc/PID/cgroup and /proc/PID/mountinfo, unless /proc is mounted
// with hidepid, where every process counts as the host's.
//
// All of it is what a pod may have made up, but for its cgroup's place and the device numbers. It
// gains nothing by that but for itself, and the mounter looks again.
type processes struct {
	proc string // /proc
	// self is the text of the cgroup file of this process, but for its digits. That of the mounter's
	// children, who work in containers and must not wait for themselves, has another PID in it (see
	// package cgroup), and is the same where nobody could leave the kubelet's cgroup.
	self    []byte
	fs      string // the device of the node mount, as mountinfo shows it
	servers string // the device of the tmpfs of server volumes
}

// newProcesses finds out about the node, once: another node mount has another daemon. own is the file
// with the cgroup of this process.
func newProcesses(proc, own, fsPath, serversPath string) (*processes, error) {
	p := &processes{proc: proc}
	var err error
	if p.self, err = os.ReadFile(own); err != nil {
		return p, err
	}
	p.self = withoutDigits(p.self)
	err = p.mounts("self", math.MaxInt, func(m mountLine) bool {
		switch string(m.point) { // the one on top comes last
		case fsPath:
			p.fs = string(m.device)
		case serversPath:
			p.servers = string(m.device)
		}
		return true
	})
	if err == nil && p.fs == "" {
		err = fmt.Errorf("the node mount %s is not in %s/self/mountinfo", fsPath, proc)
	}
	return p, err
}

func number(thread uint32) string { return strconv.FormatUint(uint64(thread), 10) }

// volumeView is what is known of a volume, to recognise its mounts.
type volumeView struct {
	id  volume.ID
	pod string // without dashes
	dir string // the kubelet's
}

func viewOf(r volume.Record) volumeView {
	return volumeView{r.ID(), podfuse.PlainUID(r.PodUID), r.Dir}
}

// canBeContainer tells whether a thread may see a volume as its container does, as far as its
// cgroup tells, and whether that says that it is of the volume's pod.
func (p *processes) canBeContainer(thread uint32, v volumeView) (ofPod, may bool) {
	if thread == 0 || p.fs == "" {
		return false, false
	}
	group, err := p.cgroup(number(thread))
	if err != nil || p.ours(group) {
		return false, false
	}
	uid := podOf(group)
	return uid == v.pod, uid == v.pod || uid == ""
}

// ours tells whether the text of a cgroup file is that of a process of this driver.
func (p *processes) ours(group []byte) bool { return bytes.Equal(withoutDigits(group), p.self) }

func withoutDigits(text []byte) []byte {
	return bytes.Map(func(r rune) rune {
		if '0' <= r && r <= '9' {
			return -1
		}
		return r
	}, text)
}

// view tells whether a thread sees a volume as its container does, and returns a key that
// all threads of that view have: the ids of the volume's mounts in it, which no other mount
// namespace has.
//
// A mount namespace with the volume in the kubelet's directories, wherever these are, is the
// host's: also that of a node agent, and of a container that the runtime prepares, which looks at
// what it is about to mount.
func (p *processes) view(thread uint32, v volumeView) (key string, is bool) {
	var (
		ids  []byte
		host bool
		root = "/" + v.id.String()
	)
	err := p.mounts(number(thread), wire.MostMounts, func(m mountLine) bool {
		if string(m.device) != p.fs || !below(m.root, root) {
			return true
		}
		if host = v.inHost(m.point); host {
			return false
		}
		ids = append(append(ids, m.id...), ' ')
		return true
	})
	if err != nil || host || len(ids) == 0 {
		return "", false
	}
	return string(ids), true
}

// inHost tells whether a mount point is one of the kubelet's: PODS/UID/volumes/..., or
// PODS/UID/volume-subpaths/..., below whatever is the root directory of the process. Where there
// is no kubelet, it is the directory itself.
func (v volumeView) inHost(point []byte) bool {
	if string(point) == v.dir {
		return true
	}
	for rest := point; ; {
		_, after, is := bytes.Cut(rest, []byte("/pods/"))
		if !is {
			return false
		}
		uid, plugin, _ := bytes.Cut(after, []byte("/"))
		if podfuse.PlainUID(string(uid)) == v.pod && bytes.HasPrefix(plugin, []byte("volume")) {
			return true
		}
		rest = after
	}
}

// below tells whether a path is a directory or in it. The root of a mount may end in "//deleted",
// where the kernel has dropped the name meanwhile.
func below(path []byte, dir string) bool {
	return len(path) >= len(dir) && string(path[:len(dir)]) == dir && (len(path) == len(dir) || path[len(dir)] == '/')
}

// peer is what a process shows that asks by a socket.
type peer struct {
	pod     string      // without dashes; "" if its cgroup names none
	servers []volume.ID // that it has
}

// server finds out about a process that asks.
func (p *processes) server(pid int) (peer, error) {
	dir := strconv.Itoa(pid)
	group, err := p.cgroup(dir)
	if err != nil {
		return peer{}, err
	}
	found := peer{pod: podOf(group)}
	err = p.mounts(dir, wire.MostMounts, func(m mountLine) bool {
		if id, is := p.serverOf(m); is && !slices.Contains(found.servers, id) {
			found.servers = append(found.servers, id)
		}
		return true
	})
	return found, err
}

// isOwn tells whether a process or thread has a server volume.
func (p *processes) isOwn(dir string, serves func(server volume.ID) bool) (is bool) {
	_ = p.mounts(dir, wire.MostMounts, func(m mountLine) bool {
		id, of := p.serverOf(m)
		is = of && serves(id)
		return !is
	})
	return is
}

// serverOf is the server volume that a mount is of.
func (p *processes) serverOf(m mountLine) (volume.ID, bool) {
	if p.servers == "" || string(m.device) != p.servers {
		return 0, false
	}
	name, _, _ := strings.Cut(strings.TrimPrefix(string(m.root), "/"), "/")
	id, err := volume.ParseID(name)
	return id, err == nil
}

func (p *processes) cgroup(dir string) ([]byte, error) {
	return proc.Read(p.proc+"/"+dir+"/cgroup", make([]byte, 0, 1<<10), podfuse.MostCgroup)
}

// podOf is the UID of the pod that a cgroup file names, without dashes; "": none.
func podOf(group []byte) string {
	for _, uid := range podfuse.Pods(group) {
		return uid
	}
	return ""
}

// mountLine is a line of mountinfo (man 5 proc_pid_mountinfo), in part, and as long as it is looked at.
type mountLine struct {
	id, device, root, point []byte
}

var errManyMounts = errors.New("it has too many mounts")

// mounts calls a function with each mount that a process sees, until it returns false. It reads so
// many bytes at most.
func (p *processes) mounts(dir string, most int, each func(mountLine) bool) error {
	fd, err := unix.Open(p.proc+"/"+dir+"/mountinfo", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	// The kernel gives a page at a time, or a longer line (fs/seq_file.c, seq_read_iter).
	pooled := buffers.Get().(*[]byte)
	defer buffers.Put(pooled)
	buffer, from, to, total := *pooled, 0, 0, 0
	for total < most && to < len(buffer) {
		n, err := unix.Read(fd, buffer[to:])
		if err != nil {
			return err // EINVAL: it has ended
		}
		if n == 0 {
			return nil
		}
		total += n
		to += n
		for {
			end := bytes.IndexByte(buffer[from:to], '\n')
			if end < 0 {
				break
			}
			if m, is := parseMount(buffer[from : from+end]); is && !each(m) {
				return nil
			}
			from += end + 1
		}
		to, from = copy(buffer, buffer[from:to]), 0
	}
	return errManyMounts
}

// buffers are for mountinfo, of which a line has two paths of at most a page and the options.
var buffers = sync.Pool{New: func() any { b := make([]byte, 32<<10); return &b }}

func parseMount(line []byte) (m mountLine, is bool) {
	var parent []byte
	for _, field := range []*[]byte{&m.id, &parent, &m.device, &m.root, &m.point} {
		var found bool
		if *field, line, found = bytes.Cut(line, []byte(" ")); !found {
			return mountLine{}, false
		}
	}
	return m, true
}
