package standin

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"example.com/pod-info-fuse/internal/proc"
	"example.com/pod-info-fuse/podfuse"
	"example.com/pod-info-fuse/podfuse/wire"
	"example.com/pod-info-fuse/survive/volume"
)

// processes tell whose view a process has: its container's, or the host's. That takes no
// privilege: anybody may read /proc/PID/cgroup and /proc/PID/mountinfo. Where /proc is mounted with
// hidepid, nobody is known, and nobody waits: the mounter refuses volumes there.
//
// A pod may have made up all of this, except the place of its cgroup and the device numbers. It
// gains nothing by that beyond its own volume, and the mounter looks again.
type processes struct {
	proc string // /proc
	// self is the text of the cgroup file of this process, but for its digits. That of the
	// mounter's children, who work in containers and must not wait for themselves, has another PID
	// in it (see package cgroup), and is the same where nobody could leave the kubelet's cgroup.
	self  []byte
	fs    string // the device of the node mount, as mountinfo shows it
	tmpfs string // the device of the tmpfs of server volumes

	mu     sync.Mutex
	places map[volume.ID][]string // of the host, for volumes that are mounted there
}

// newProcesses finds out about the node, once: another node mount has another daemon. own is the
// file with the cgroup of this process.
func newProcesses(proc, own, fsPath, serversPath string) (*processes, error) {
	p := &processes{proc: proc, places: map[volume.ID][]string{}}
	var err error
	if p.self, err = os.ReadFile(own); err != nil {
		return p, err
	}
	p.self = withoutDigits(p.self)
	all, err := p.mounts("self", math.MaxInt)
	for _, m := range all {
		switch m.point { // the one on top comes last
		case fsPath:
			p.fs = m.device
		case serversPath:
			p.tmpfs = m.device
		}
	}
	if err == nil && p.fs == "" {
		err = fmt.Errorf("the node mount %s is not in %s/self/mountinfo", fsPath, proc)
	}
	return p, err
}

func number(thread uint32) string { return strconv.FormatUint(uint64(thread), 10) }

// canBeContainer tells whether a thread's cgroup allows that it is of a container with the volume
// (may), and whether the cgroup is of the volume's pod (ofPod).
func (p *processes) canBeContainer(thread uint32, v volume.Record) (ofPod, may bool) {
	if thread == 0 || p.fs == "" {
		return false, false
	}
	group, err := p.cgroup(number(thread))
	if err != nil || p.ours(group) {
		return false, false
	}
	uid := podOf(group)
	ofPod = uid == podfuse.PlainUID(v.PodUID)
	return ofPod, ofPod || uid == ""
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
// A mount namespace with the volume on the kubelet's directory, wherever that is seen, is the
// host's: also that of a node agent, and of a container that the runtime prepares, which looks at
// what it is about to mount.
func (p *processes) view(thread uint32, v volume.Record) (key string, is bool) {
	root := "/" + v.ID().String()
	all, err := p.mounts(number(thread), wire.MostMounts)
	var ids strings.Builder
	var whole []mountLine
	for _, m := range all {
		if m.device != p.fs || !below(m.root, root) {
			continue
		}
		ids.WriteString(m.id + " ")
		if m.isWhole(root) && len(whole) < mostWhole {
			whole = append(whole, m)
		}
	}
	if err != nil || ids.Len() == 0 {
		return "", false
	}
	host := p.hostPlaces(v)
	if slices.ContainsFunc(placesOf(whole, all), func(place string) bool { return slices.Contains(host, place) }) {
		return "", false
	}
	return ids.String(), true
}

// mostWhole is how many mounts of the whole volume in a mount namespace are looked at. The host has
// one.
const mostWhole = 8

// isWhole tells whether a mount shows all of a directory, and not only a directory in it.
func (m mountLine) isWhole(dir string) bool { return strings.TrimSuffix(m.root, "//deleted") == dir }

// placesOf are the directories that some of a process's mounts are on, or those below them if
// several are on top of each other: the device of a file system, and a path in it. These are the
// same wherever the directory is seen, and by whatever path: the kubelet's may have links in it.
func placesOf(some, all []mountLine) (places []string) {
	const deepest = 8 // mounts on top of each other
	for range deepest {
		var lower []mountLine
		for _, m := range all {
			for _, one := range some {
				switch rest, in := m.cut(one.point); {
				case m.id != one.parent || !in:
				case rest == "":
					lower = append(lower, mountLine{parent: m.parent, point: one.point})
				default:
					places = append(places, m.place(rest))
				}
			}
		}
		if some = lower; len(some) == 0 {
			break
		}
	}
	return places
}

// cut returns what a path has below the mount point.
func (m mountLine) cut(path string) (rest string, in bool) {
	return strings.CutPrefix(path, strings.TrimSuffix(m.point, "/"))
}

// place is a directory in the mount.
func (m mountLine) place(rest string) string { return m.device + " " + filepath.Join(m.root, rest) }

// hostPlaces are those of a volume in our own mount namespace, which is the host's: the kubelet's
// directory, as mountinfo has it, and as its path says, should the kubelet have got another mount
// namespace since.
func (p *processes) hostPlaces(v volume.Record) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	id := v.ID()
	if known := p.places[id]; known != nil {
		return known
	}
	var whole []mountLine
	var byPath string
	longest := 0
	all, err := p.mounts("self", math.MaxInt)
	for _, m := range all {
		if m.device == p.fs && m.isWhole("/"+id.String()) {
			whole = append(whole, m)
		}
		// Of two on one directory, the one on top comes last.
		if rest, in := m.cut(v.Dir); in && strings.HasPrefix(rest, "/") && len(m.point) >= longest {
			byPath, longest = m.place(rest), len(m.point)
		}
	}
	places := append(placesOf(whole, all), byPath)
	if err == nil && len(places) > 1 {
		const many = 1000
		if len(p.places) > many { // volumes come and go
			clear(p.places)
		}
		p.places[id] = places
	}
	return places
}

// below tells whether a path is a directory or in it. The root of a mount may end in "//deleted",
// where the kernel has dropped the name meanwhile.
func below(path, dir string) bool {
	rest, is := strings.CutPrefix(path, dir)
	return is && (rest == "" || rest[0] == '/')
}

// servers are the server volumes that a process or thread has.
func (p *processes) servers(dir string) (ids []volume.ID, err error) {
	all, err := p.mounts(dir, wire.MostMounts)
	for _, m := range all {
		if id, is := p.serverOf(m); is && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids, err
}

// serverOf is the server volume that a mount is of.
func (p *processes) serverOf(m mountLine) (volume.ID, bool) {
	if p.tmpfs == "" || m.device != p.tmpfs {
		return 0, false
	}
	name, _, _ := strings.Cut(strings.TrimPrefix(m.root, "/"), "/")
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

// mountLine is a line of mountinfo (man 5 proc_pid_mountinfo), in part.
type mountLine struct{ id, parent, device, root, point string }

// mounts lists the mounts that a process sees, read once: the kernel gives a page at a time, and
// each may take long (see looks). They may have less than so many bytes.
func (p *processes) mounts(dir string, most int) (all []mountLine, err error) {
	text, err := proc.Read(p.proc+"/"+dir+"/mountinfo", make([]byte, 0, 16<<10), most)
	for line := range strings.Lines(string(text)) {
		if m, is := parseMount(strings.TrimSuffix(line, "\n")); is {
			all = append(all, m)
		}
	}
	return all, err
}

func parseMount(line string) (m mountLine, is bool) {
	for _, field := range []*string{&m.id, &m.parent, &m.device, &m.root, &m.point} {
		if *field, line, is = strings.Cut(line, " "); !is {
			break
		}
	}
	return m, is
}
