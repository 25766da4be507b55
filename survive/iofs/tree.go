package iofs

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// tree has the names and attributes of everything, in memory.
type tree struct {
	content fs.FS
	nodes   []node   // the root, and then directory after directory, each in the order of its names
	sorted  []uint32 // all but the root, by hash
}

// node is a file, a directory or a link.
type node struct {
	path        string // as package io/fs has it
	hash        uint64 // 63 bits
	size        int64
	modified    int64 // in seconds
	nanoseconds uint32
	mode        uint32
	uid, gid    uint32
	nlink       uint32
	first, end  uint32 // of the nodes in a directory
}

// mostNodes bounds the memory. The cgroup of the two processes has 512 MiB; so many files of a zip
// archive need 470.
const mostNodes = 1 << 19

func newTree(content fs.FS) (*tree, error) {
	root, err := fs.Stat(content, ".")
	if err != nil {
		return nil, err
	}
	if !root.IsDir() {
		return nil, errors.New("its root is no directory")
	}
	t := &tree{content: content}
	t.nodes = append(t.nodes, newNode(".", root))
	for at := 0; at < len(t.nodes); at++ {
		if !t.nodes[at].isDir() {
			continue
		}
		if err := t.addChildren(at); err != nil {
			return nil, err
		}
	}
	t.nodes = slices.Clip(t.nodes)
	return t, t.index()
}

// index sorts the nodes by hash.
func (t *tree) index() error {
	t.sorted = make([]uint32, len(t.nodes)-1)
	for i := range t.sorted {
		t.sorted[i] = uint32(i + 1)
	}
	slices.SortFunc(t.sorted, func(a, b uint32) int { return cmp.Compare(t.nodes[a].hash, t.nodes[b].hash) })
	for i := 1; i < len(t.sorted); i++ {
		one, other := &t.nodes[t.sorted[i-1]], &t.nodes[t.sorted[i]]
		if one.hash == other.hash {
			return fmt.Errorf("%q and %q have the same node id; rename one of them", one.path, other.path)
		}
	}
	return nil
}

// addChildren adds what is in a directory.
func (t *tree) addChildren(at int) error {
	dir := t.nodes[at].path
	entries, err := fs.ReadDir(t.content, dir)
	if err != nil {
		return err
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	t.nodes[at].first = uint32(len(t.nodes))
	for i, entry := range entries {
		name := entry.Name()
		switch kind := entry.Type() &^ (fs.ModeDir | fs.ModeSymlink); {
		case !isName(name) || kind != 0:
			continue
		case i > 0 && entries[i-1].Name() == name:
			return fmt.Errorf("directory %q has two of the name %q", dir, name)
		case len(t.nodes) == mostNodes:
			return fmt.Errorf("it has more than %d names", mostNodes)
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		if info.IsDir() {
			t.nodes[at].nlink++ // for its "..", by which find(1) knows that there are directories
		}
		t.nodes = append(t.nodes, newNode(path.Join(dir, name), info))
	}
	t.nodes[at].end = uint32(len(t.nodes))
	return nil
}

// isName tells whether a file can have a name.
func isName(name string) bool {
	const longest = 255 // bytes
	return name != "" && name != "." && name != ".." && len(name) <= longest && !strings.ContainsAny(name, "/\x00")
}

func newNode(path string, info fs.FileInfo) node {
	n := node{path: path, mode: uint32(info.Mode().Perm()), nlink: 1}
	switch {
	case info.IsDir():
		n.mode |= unix.S_IFDIR
		n.nlink = 2
	case info.Mode()&fs.ModeSymlink != 0:
		n.mode |= unix.S_IFLNK
	default:
		n.mode |= unix.S_IFREG
	}
	if !info.IsDir() {
		n.size = max(info.Size(), 0)
	}
	if at := info.ModTime(); !at.IsZero() {
		n.modified, n.nanoseconds = at.Unix(), uint32(at.Nanosecond())
	}
	if stat, is := info.Sys().(*syscall.Stat_t); is {
		n.uid, n.gid = stat.Uid, stat.Gid
	}
	id := append([]byte(path), 0)
	if !info.IsDir() {
		id = binary.BigEndian.AppendUint64(id, uint64(n.size))
		id = binary.BigEndian.AppendUint64(id, uint64(n.modified))
		id = binary.BigEndian.AppendUint32(id, n.nanoseconds)
	}
	sum := sha256.Sum256(id)
	n.hash = binary.BigEndian.Uint64(sum[:]) >> 1
	return n
}

func (n *node) isDir() bool { return n.mode&unix.S_IFMT == unix.S_IFDIR }

func (n *node) name() string { return path.Base(n.path) }

func (n *node) attributes(id uint64) fuse.Attr {
	attr := fuse.Attr{
		Ino: id, Mode: n.mode, Nlink: n.nlink, Size: uint64(n.size), Blocks: (uint64(n.size) + 511) / 512,
		Owner: fuse.Owner{Uid: n.uid, Gid: n.gid},
	}
	at := time.Unix(n.modified, int64(n.nanoseconds))
	attr.SetTimes(&at, &at, &at)
	return attr
}

// byHash returns the node with a hash, nil if there is none.
func (t *tree) byHash(hash uint64) *node {
	i, found := slices.BinarySearchFunc(t.sorted, hash, func(at uint32, hash uint64) int { return cmp.Compare(t.nodes[at].hash, hash) })
	if !found {
		return nil
	}
	return &t.nodes[t.sorted[i]]
}

func (t *tree) children(dir *node) []node { return t.nodes[dir.first:dir.end] }

// child returns what has a name in a directory, nil if there is none.
func (t *tree) child(dir *node, name string) *node {
	children := t.children(dir)
	i, found := slices.BinarySearchFunc(children, name, func(at node, name string) int { return strings.Compare(at.name(), name) })
	if !found {
		return nil
	}
	return &children[i]
}

// readLink returns the target of a link.
func (t *tree) readLink(at *node) ([]byte, error) {
	if _, is := t.content.(fs.ReadLinkFS); is {
		target, err := fs.ReadLink(t.content, at.path)
		return []byte(target), err
	}
	file, err := t.content.Open(at.path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	const longest = unix.PathMax - 1
	target, err := io.ReadAll(io.LimitReader(file, longest+1))
	if err == nil && len(target) > longest {
		err = unix.ENAMETOOLONG
	}
	return target, err
}
