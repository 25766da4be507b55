package fs

import (
	"errors"
	"math"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/internal/facts"
	"example.com/pod-info-fuse/survive/volume"
)

// The operator's facts are the same in every volume, and so are their inodes: one for each
// version of a fact. The kernel asks for the name at every open, gets the version of that
// moment, and keeps the pieces that it has read in its page cache. So a reader gets all
// pieces of one version, whatever replaces it.
//
// The kernel asks only for pieces that it does not have. The serving process keeps the
// versions that were read last, and looks for others in the directory. If a version was
// replaced there and another process serves by now, it is lost, and the read fails with
// ESTALE.
//
// The inode number that programs see is made from the name alone.

const factPrefix = "node."

// FactsIn are the facts in a directory as the file system reads them. nil: there are none.
func FactsIn(directory *os.File) facts.Dir {
	return facts.Dir{File: directory, Reserved: func(name string) bool {
		_, taken := kindOf(factPrefix + name)
		return taken
	}}
}

func factNode(f facts.Fact) uint64 { return volume.Node(volume.ID(f.VersionID()), nodeFact) }

// factIno is the inode number that programs see.
func factIno(f facts.Fact) uint64 { return volume.Node(volume.ID(f.ID), nodeFact) }

// lookupFact resolves the name of a fact in a volume's directory.
func (f *FS) lookupFact(name string, out *fuse.EntryOut) fuse.Status {
	name, is := strings.CutPrefix(name, factPrefix)
	if !is {
		return fuse.ENOENT
	}
	fact, content, err := f.facts.Read(name)
	switch {
	case errors.Is(err, facts.ErrChanged), errors.Is(err, unix.EIO), errors.Is(err, unix.EAGAIN):
		return fuse.EIO
	case errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE), errors.Is(err, unix.ENOMEM):
		return statusOf(err)
	case err != nil:
		return fuse.ENOENT // it is left out, and status says why
	}
	out.NodeId = factNode(fact)
	f.versions.put(version{out.NodeId, fact, content})
	factAttr(fact, &out.Attr)
	out.AttrValid = volume.Forever // of this version
	return fuse.OK
}

// nobody is the owner of facts: a user that no process can become (setuid(2)). Programs see the
// overflow user, 65534. The owner of a file could take a lease on it (fcntl(2), F_SETLEASE), which
// the kernel grants without asking the daemon. Then open(2) would wait 45 seconds in all pods,
// because a fact is one file in all volumes.
var nobody = fuse.Owner{Uid: math.MaxUint32}

func factAttr(fact facts.Fact, attr *fuse.Attr) {
	attr.Ino = factIno(fact)
	attr.Mode = regular
	attr.Nlink = 1
	attr.Owner = nobody
	attr.Size = uint64(fact.Size)
	attr.SetTimes(&fact.Changed, &fact.Changed, &fact.Changed)
}

func (f *FS) factAttributes(node uint64, out *fuse.AttrOut) fuse.Status {
	v, status := f.version(node)
	if status.Ok() {
		factAttr(v.fact, &out.Attr)
		out.AttrValid = volume.Forever
	}
	return status
}

// openFact makes sure that the version can be read: ESTALE has the kernel look the name
// up again.
func (f *FS) openFact(node uint64, out *fuse.OpenOut) fuse.Status {
	out.OpenFlags = fuse.FOPEN_NOFLUSH | fuse.FOPEN_KEEP_CACHE
	_, status := f.version(node)
	return status
}

func (f *FS) readFact(in *fuse.ReadIn, buffer []byte) (fuse.ReadResult, fuse.Status) {
	v, status := f.version(in.NodeId)
	if !status.Ok() {
		return nil, status
	}
	return filledFrom(v.content, in.Offset, buffer), fuse.OK
}

// version finds a version that the kernel knows: among those that were read last, or
// in the directory. ESTALE: it was replaced.
func (f *FS) version(node uint64) (version, fuse.Status) {
	if v, there := f.versions.get(node); there {
		return v, fuse.OK
	}
	all, _, err := f.facts.Scan() // a shared look does not see what is written into a file
	if err != nil {
		return version{}, statusOf(err)
	}
	for _, fact := range all {
		if factNode(fact) != node {
			continue
		}
		if now, content, err := f.facts.Read(fact.Name); err == nil && factNode(now) == node {
			v := version{node, now, content}
			f.versions.put(v)
			return v, fuse.OK
		}
	}
	return version{}, fuse.Status(unix.ESTALE)
}

// version is a version of a fact, with its content.
type version struct {
	node    uint64
	fact    facts.Fact
	content []byte
}

// size is the memory that a version counts for: more than its content.
func (v version) size() int { return len(v.content) + 256 }

// maxVersions is how much is kept, in bytes: sixteen of the largest facts.
const maxVersions = 16 * facts.MaxSize

// versions keeps the versions that were read last, for readers that have not read all of one
// when it is replaced. It is a cache: a successor begins without it.
type versions struct {
	mu    sync.Mutex // guards what follows
	all   []version  // the one that was used last at the end
	bytes int
}

func (v *versions) get(node uint64) (version, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for i, kept := range slices.Backward(v.all) {
		if kept.node == node {
			v.all = append(slices.Delete(v.all, i, i+1), kept)
			return kept, true
		}
	}
	return version{}, false
}

func (v *versions) put(added version) {
	if _, there := v.get(added.node); there {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.all = append(v.all, added)
	for v.bytes += added.size(); v.bytes > maxVersions; {
		v.bytes -= v.all[0].size()
		v.all = slices.Delete(v.all, 0, 1)
	}
}
