package survivetest

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/survive/volume"
)

// node is a file, a directory or a link, as a reader sees it: its parts, by their names in
// messages.
type node struct {
	kind  uint32 // S_IFMT of its mode
	parts map[string]string
}

const (
	failure = "error" // none, or that of what could not be read
	none    = "none"
	names   = "list of names"
	content = "content"
)

// nodes are all that there are, by path.
type nodes map[string]node

// comparison says how two looks that are compared differ, and what to do about a part that does.
type comparison struct{ how, remedy string }

const (
	remedyOfConfined = "name what the file system opens in Driver.Reads, and let others read it: the process is a user without rights, and may make few system calls (go doc ./internal/confine)"
	remedyOfNodes    = "every process must know a node id, and mean the same by it: compute it from the volume's id and the file's number, and give the record's generation (volume.Record.Entry), with no table and no counter"
	remedyOfContent  = "make it of what all processes know, and of nothing that a process has found when it began; where it changes for all, name it in Test.Changes"
	remedyOfTimes    = "take times from what all processes know, such as Record.Mounted, and not from when a process began"
)

var (
	byItself   = comparison{"in a process that is not confined", "the file system must answer for what it lists"}
	bySame     = comparison{"at the next look, of the same process", "it must stay; of a file in Test.Changes, the content, the size and the times need not"}
	byProcess  = comparison{"from another process", "make it of the record and of constants"}
	byTurns    = comparison{"while processes serve by turns", byProcess.remedy}
	byOpen     = comparison{"from another process than that which opened it", remedyOfNodes}
	byVersion  = comparison{"by the node id of the version before", "the kernel remembers node ids across an upgrade: never give a number another meaning"}
	byConfined = comparison{"from a process that is confined", remedyOfConfined}
)

// remedies are those for parts that differ from process to process.
var remedies = map[string]string{
	"modification time": remedyOfTimes, "change time": remedyOfTimes,
	"link's target": remedyOfContent, content: remedyOfContent, "size": remedyOfContent,
	"inode number": remedyOfNodes,
	names:          "list the same names in the same order: sort them, and go by the offset alone",
	failure:        "a fresh process must be able to answer: keep nothing in memory that an answer needs",
}

func (c comparison) remedyOf(part string) string {
	if c.remedy == byProcess.remedy || c.remedy == remedyOfNodes && part == names {
		return cmp.Or(remedies[part], c.remedy)
	}
	return c.remedy
}

// differ returns the parts of a node that are not as they were.
func differ(was, is node) []string {
	if was.parts[failure] != is.parts[failure] {
		return []string{failure} // and all others
	}
	return slices.DeleteFunc(slices.Sorted(maps.Keys(was.parts)), func(part string) bool { return was.parts[part] == is.parts[part] })
}

// compare adds what differs to the failures: for each part, the first node, and how many there are.
// What was not seen is for its directory to say.
func (r *run) compare(want, got nodes, by comparison) {
	first, all := map[string]string{}, map[string]int{}
	for _, path := range slices.Sorted(maps.Keys(want)) {
		is, seen := got[path]
		if !seen {
			continue
		}
		for _, part := range differ(want[path], is) {
			if all[part]++; all[part] == 1 {
				first[part] = fmt.Sprintf("%s: its %s is %.100q, and was %.100q, %s", r.inside(path), part, is.parts[part], want[path].parts[part], by.how)
			}
		}
	}
	for _, part := range slices.Sorted(maps.Keys(first)) {
		others := ""
		if all[part] > 1 {
			others = fmt.Sprintf(" (and so for %d more)", all[part]-1)
		}
		r.failed.add("%s%s: %s", first[part], others, by.remedyOf(part))
	}
}

// compareProcesses compares what two processes give: by path, and by what was opened when the first
// one served.
func (r *run) compareProcesses(want, got, open nodes) {
	r.compare(want, got, byProcess)
	// Where these differ, too, the node id is not to blame.
	maps.DeleteFunc(open, func(path string, _ node) bool { return len(differ(want[path], got[path])) > 0 })
	r.compare(want, open, byOpen)
}

// compareVersions compares what a version gives by the nodes of the version before with what it
// gives by path: a node id must mean what it has meant. What is not there any more may be an error.
func (r *run) compareVersions(before, got, open nodes) {
	means := nodes{}
	for path, is := range open {
		now, still := got[path]
		if !still && is.parts[failure] != none {
			continue
		} else if !still {
			now = before[path]
		}
		// The version may have another number for the name, and other names in a listing that was
		// begun.
		parts := maps.Clone(now.parts)
		delete(parts, "inode number")
		delete(parts, names)
		means[path] = node{now.kind, parts}
	}
	r.compare(means, open, byVersion)
}

// look looks at everything.
func (r *run) look() nodes {
	found := nodes{}
	root := filepath.Join(r.dir, "fs")
	r.walk(root, found)
	// The root of a file system need not list the volumes.
	for _, record := range r.Volumes {
		path := filepath.Join(root, record.ID().String())
		if _, is := found[path]; !is && !errors.Is(unix.Access(path, unix.F_OK), unix.ENOENT) {
			r.walk(path, found)
		}
	}
	return found
}

func (r *run) walk(path string, found nodes) {
	fd, n := r.open(path)
	if fd >= 0 {
		defer unix.Close(fd)
		n = r.read(fd, path, nil)
	}
	found[path] = n
	below := strings.Split(n.parts[names], "/")
	if !r.until.IsZero() { // there may be no time for all of them
		rand.Shuffle(len(below), func(i, j int) { below[i], below[j] = below[j], below[i] })
	}
	for _, name := range below {
		if name != "" && r.seen() {
			r.walk(filepath.Join(path, name), found)
		}
	}
}

// inside is a path without the mount point, which differs from run to run.
func (r *run) inside(path string) string {
	return cmp.Or(strings.TrimPrefix(strings.TrimPrefix(path, filepath.Join(r.dir, "fs")), "/"), "the root")
}

// changes tells whether a file may change.
func (r *run) changes(path string) bool {
	name := r.inside(path)
	first, rest, _ := strings.Cut(name, "/")
	if _, err := volume.ParseID(first); err == nil {
		name = rest
	}
	return r.Changes != nil && r.Changes(name)
}

// open opens a file or a directory to read it, and anything else by its name only. It does so
// without the runtime's poller. fd is -1 where that fails, as n says.
func (r *run) open(path string) (fd int, n node) {
	var stat unix.Stat_t
	if err := unix.Lstat(path, &stat); err != nil {
		return -1, failed("stat", err)
	}
	flags := unix.O_RDONLY
	if kind := stat.Mode & unix.S_IFMT; kind != unix.S_IFREG && kind != unix.S_IFDIR {
		flags = unix.O_PATH | unix.O_NOFOLLOW
	}
	fd, err := unix.Open(path, flags|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, failed("open", err)
	}
	return fd, node{}
}

func failed(operation string, err error) node {
	return node{parts: map[string]string{failure: fmt.Sprintf("%s: %v", operation, err)}}
}

// read reads what is open: its attributes, and all that is in it. A listing goes on after what was
// begun of it.
func (r *run) read(fd int, path string, begun []string) node {
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return failed("stat", err)
	}
	n := node{stat.Mode & unix.S_IFMT, map[string]string{
		failure: none, "mode": fmt.Sprintf("%#o", stat.Mode), "owner": fmt.Sprint(stat.Uid, ":", stat.Gid),
		"number of links": fmt.Sprint(stat.Nlink), "inode number": fmt.Sprint(stat.Ino), "device number": fmt.Sprint(stat.Rdev),
	}}
	var text string
	var err error
	part := content
	switch n.kind {
	case unix.S_IFLNK:
		part = "link's target"
		buffer := make([]byte, 4096)
		var length int
		length, err = unix.Readlinkat(fd, "", buffer)
		text = string(buffer[:max(length, 0)])
	case unix.S_IFDIR:
		part = names
		text, err = list(fd, begun)
	case unix.S_IFREG:
		text, err = readAll(fd)
	}
	if err != nil {
		return failed("read", err)
	}
	if n.kind != unix.S_IFREG || !r.changes(path) {
		n.parts[part], n.parts["size"] = text, fmt.Sprint(stat.Size)
		n.parts["modification time"] = fmt.Sprintf("%d.%09d", stat.Mtim.Sec, stat.Mtim.Nsec)
		n.parts["change time"] = fmt.Sprintf("%d.%09d", stat.Ctim.Sec, stat.Ctim.Nsec)
	}
	return n
}

// list lists a directory, some entries at a time: from its beginning, or after what was begun.
func list(fd int, begun []string) (string, error) {
	if begun == nil {
		if _, err := unix.Seek(fd, 0, io.SeekStart); err != nil {
			return "", err
		}
	}
	for all := begun; ; {
		more, err := listSome(fd)
		if err != nil || more == nil {
			return strings.Join(all, "/"), err
		}
		all = append(all, more...)
	}
}

// listSome returns the next names, nil at the end.
func listSome(fd int) ([]string, error) {
	buffer := make([]byte, 288)
	n, err := unix.Getdents(fd, buffer)
	if err != nil || n == 0 {
		return nil, err
	}
	_, _, some := unix.ParseDirent(buffer[:n], -1, []string{})
	return some, nil
}

// readAll reads a file from its beginning, some bytes at a time.
func readAll(fd int) (string, error) {
	var text []byte
	for buffer := make([]byte, 1+rand.N(8<<10)); ; {
		n, err := unix.Pread(fd, buffer, int64(len(text)))
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || n == 0 {
			return string(text), err
		}
		text = append(text, buffer[:n]...)
	}
}

// opened is what stays open, by path.
type opened struct {
	mu    sync.Mutex // guards what follows, and the offset of each
	fds   map[string]int
	begun map[string][]string // of a listing whose rest another process gives
}

// lookAndKeep looks at everything, then opens all of it, and begins to list.
func (r *run) lookAndKeep() nodes {
	found := r.look()
	r.kept = &opened{fds: map[string]int{}, begun: map[string][]string{}}
	for path, n := range found {
		fd, _ := r.open(path)
		if fd < 0 {
			continue
		}
		r.kept.fds[path] = fd
		if n.kind == unix.S_IFDIR {
			r.kept.begun[path], _ = listSome(fd)
		}
	}
	return found
}

// look looks at what is open.
func (o *opened) look(r *run) nodes {
	o.mu.Lock()
	defer o.mu.Unlock()
	found := nodes{}
	for path, fd := range o.fds {
		found[path] = r.read(fd, path, o.begun[path])
		if delete(o.begun, path); !r.seen() {
			break
		}
	}
	return found
}

func (o *opened) close() {
	for _, fd := range o.fds {
		unix.Close(fd)
	}
	o.fds = nil
}
