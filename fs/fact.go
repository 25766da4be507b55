package fs

import (
	"errors"
	"strings"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/facts"
	"example.com/pod-info-fuse/volume"
)

// The operator's facts are the same in every volume, and so are their inodes: one
// for each version of a fact. The kernel asks for the name at every open, and gets
// the version of that moment. At the open, the whole content is put into the
// kernel's page cache, where it stays as long as somebody has the file open. So a
// reader gets all of one version, in pieces of any size, whatever replaces it and
// whoever serves by then.
//
// What programs see as the number of the inode is made from the name alone.

const factPrefix = "node."

func isFact(node uint64) bool { _, k := split(node); return k == nodeFact }

func factNode(f facts.Fact) uint64 { return nodeID(volume.ID(f.VersionID()), nodeFact) }

func factIno(name string) uint64 { return nodeID(volume.ID(facts.ID(name)), nodeFact) }

// lookupFact resolves the name of a fact in a volume's directory.
func (f *FS) lookupFact(parent uint64, name string, out *fuse.EntryOut) fuse.Status {
	name, is := strings.CutPrefix(name, factPrefix)
	if !is {
		return fuse.ENOENT
	}
	if _, _, status := f.record(parent); !status.Ok() {
		return status
	}
	fact, content, err := f.facts.Read(name)
	switch {
	case errors.Is(err, facts.ErrChanged), errors.Is(err, unix.EIO):
		return fuse.EIO
	case errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE), errors.Is(err, unix.ENOMEM):
		return statusOf(err)
	case err != nil:
		return fuse.ENOENT // it is left out, and status says why
	}
	f.versions.put(version{fact, content})
	out.NodeId = factNode(fact)
	factAttr(fact, &out.Attr)
	out.AttrValid = forever // of this version
	return fuse.OK
}

func factAttr(fact facts.Fact, attr *fuse.Attr) {
	attr.Ino = factIno(fact.Name)
	attr.Mode = fuse.S_IFREG | 0o444
	attr.Nlink = 1
	attr.Size = uint64(fact.Size)
	attr.SetTimes(&fact.Changed, &fact.Changed, &fact.Changed)
}

func (f *FS) factAttributes(node uint64, out *fuse.AttrOut) fuse.Status {
	v, status := f.version(node)
	if status.Ok() {
		factAttr(v.fact, &out.Attr)
		out.AttrValid = forever
	}
	return status
}

// openFact puts the content where the reads will find it.
func (f *FS) openFact(node uint64, out *fuse.OpenOut) fuse.Status {
	v, status := f.version(node)
	if !status.Ok() {
		return status // ESTALE makes the kernel look the name up again
	}
	if len(v.content) == 0 || f.store(node, v.content) {
		f.versions.drop(node)
	} else {
		f.versions.put(v) // for the reads that the page cache will not answer
	}
	out.OpenFlags = fuse.FOPEN_NOFLUSH | fuse.FOPEN_KEEP_CACHE
	return fuse.OK
}

// readFact answers what the page cache did not: memory was short, and the kernel
// gave its pages up. If the fact was replaced meanwhile, the version is lost, and
// the read fails; it never gets another one.
func (f *FS) readFact(in *fuse.ReadIn, buffer []byte) (fuse.ReadResult, fuse.Status) {
	f.storing.missed()
	v, status := f.version(in.NodeId)
	if !status.Ok() {
		return nil, status
	}
	return filledFrom(v.content, in.Offset, buffer), fuse.OK
}

// version finds a version that the kernel knows: the one that was looked up just
// now, or what is there, if that is the one. ESTALE: it was replaced.
func (f *FS) version(node uint64) (version, fuse.Status) {
	if v, there := f.versions.get(node); there {
		return v, fuse.OK
	}
	all, _, err := f.facts.Scan()
	if err != nil {
		return version{}, statusOf(err)
	}
	for _, fact := range all {
		if factNode(fact) != node {
			continue
		}
		now, content, err := f.facts.Read(fact.Name)
		if err == nil && factNode(now) == node {
			v := version{now, content}
			f.versions.put(v) // who reads a page that is missing reads the next one, too
			return v, fuse.OK
		}
	}
	return version{}, fuse.Status(unix.ESTALE)
}

// listFacts lists the operator's facts, after the other entries and by their ids:
// one that comes or goes while somebody lists moves no other.
func (f *FS) listFacts(offset uint64, out *fuse.DirEntryList) {
	const first = dots + 1<<kindBits // beyond the offsets of the others
	for _, fact := range f.listed(offset <= first) {
		off := first + facts.ID(fact.Name) + 1
		if off <= offset {
			continue
		}
		e := fuse.DirEntry{Name: factPrefix + fact.Name, Mode: fuse.S_IFREG, Ino: factIno(fact.Name), Off: off}
		if !out.AddDirEntry(e) {
			return
		}
	}
}
