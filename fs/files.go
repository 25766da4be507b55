package fs

import (
	"bytes"
	"slices"
	"strconv"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/survive/volume"
)

// kind is a node's kind in its volume: its row in files, and a part of the node's number
// (volume.Node). The kernel remembers kinds across upgrades and downgrades, in node numbers
// and in the positions of listings that are on. So a kind is for ever: a new file gets the
// next number, and a file that is given up leaves its number unused. There is room for 256.
type kind = uint8

const (
	directory         kind = 0
	podUID            kind = 1
	podNodename       kind = 2
	pod               kind = 3
	pid               kind = 4
	podName           kind = 5
	podNamespace      kind = 6
	podServiceAccount kind = 7
	volumeName        kind = 8
	nodeKernel        kind = 9
	nodeBootID        kind = 10
	nodeArch          kind = 11
	// nodeFact is a fact of the operator's. Its node is the same in every volume, and has the
	// id of a version in the place of a volume's; see fact.go.
	nodeFact kind = 12
)

const (
	regular = fuse.S_IFREG | 0o444
	link    = fuse.S_IFLNK | 0o777
)

// file is a file that a volume can have. Its content is fixed or live.
type file struct {
	name  string // "" where nodes of this kind have names of their own
	mode  uint32 // type and permissions
	scope scope

	// fixed returns a content that stays as long as the volume is mounted. The kernel
	// keeps it.
	fixed func(volume.Record) (string, error)
	// live returns a content that differs from read to read, for the thread that reads: as
	// much as a text holds. The kernel does not keep it, and it does not depend on the
	// record. The kernel refuses it files that are not in Reads; if it may wait, NeverBlocks
	// must say so. ESRCH: the reader is not a process that the file system can name.
	live func(f *FS, thread uint32) (text, error)
}

// scope says which volumes have a file.
type scope int

const (
	everyVolume     scope = iota
	askedByPod            // an option of the pod or the operator's configuration asked for it
	askedByOperator       // the operator's configuration did
	operators             // every volume, while there is such a fact
)

// files are the files of volumes, by kind. They are listed in this order.
var files = [...]file{
	directory:         {"", fuse.S_IFDIR | 0o555, everyVolume, nil, nil},
	podUID:            {"pod.uid", regular, everyVolume, func(r volume.Record) (string, error) { return r.PodUID, nil }, nil},
	podNodename:       {"pod.nodename", regular, everyVolume, nil, (*FS).nodename},
	pod:               {"pod", regular, everyVolume, nil, (*FS).reader},
	pid:               {"pid", link, everyVolume, func(volume.Record) (string, error) { return "pod", nil }, nil},
	podName:           {"pod.name", regular, askedByPod, func(r volume.Record) (string, error) { return r.PodName, nil }, nil},
	podNamespace:      {"pod.namespace", regular, askedByPod, func(r volume.Record) (string, error) { return r.PodNamespace, nil }, nil},
	podServiceAccount: {"pod.serviceaccount", regular, askedByPod, func(r volume.Record) (string, error) { return r.ServiceAccount, nil }, nil},
	volumeName:        {"volume.name", regular, askedByPod, func(r volume.Record) (string, error) { return r.Name, nil }, nil},
	nodeKernel:        {"node.kernel", regular, askedByOperator, kernel, nil},
	nodeBootID:        {FactBootID, regular, askedByOperator, bootID, nil},
	nodeArch:          {"node.arch", regular, askedByOperator, arch, nil},
	nodeFact:          {"", regular, operators, nil, nil},
}

// FactBootID is the name of the file whose content a call-out must record: the daemon cannot
// read it.
const FactBootID = "node.bootid"

// PodFacts are the names of the files that a pod can ask for.
func PodFacts() []string { return namesOf(askedByPod) }

// Facts are the names of all files that a volume has only if they were asked for.
func Facts() []string { return namesOf(askedByPod, askedByOperator) }

func namesOf(scopes ...scope) (names []string) {
	for i := range files {
		if slices.Contains(scopes, files[i].scope) {
			names = append(names, files[i].name)
		}
	}
	return names
}

// kindOf returns the kind of the file that has a name.
func kindOf(name string) (kind, bool) {
	for k := range files {
		if files[k].name == name && name != "" {
			return kind(k), true
		}
	}
	return 0, false
}

// fileOf returns the row of a node; the root's is that of directories. nil: this version does
// not know the node's kind.
func fileOf(node uint64) *file {
	_, k := volume.Split(node)
	switch {
	case node == fuse.FUSE_ROOT_ID:
		return &files[directory]
	case int(k) < len(files):
		return &files[k]
	}
	return nil
}

// in tells whether a volume with these attributes has the file.
func (f *file) in(a Attributes) bool {
	return f.scope == everyVolume || slices.Contains(a.Facts, f.name)
}

// text is the content of a live file: a value, so that a read needs no memory that
// would be garbage.
type text struct {
	bytes  [64]byte // a host name has no more
	length int
}

// nodename asks at every read, as the name may change.
func (*FS) nodename(uint32) (t text, err error) {
	var name unix.Utsname
	err = unix.Uname(&name)
	t.length = copy(t.bytes[:], field(&name.Nodename))
	return t, err
}

// reader names the process that reads.
func (f *FS) reader(thread uint32) (t text, err error) {
	process, err := f.threads.group(thread)
	t.length = len(strconv.AppendUint(t.bytes[:0], uint64(process), 10))
	return t, err
}

func kernel(volume.Record) (string, error) {
	var name unix.Utsname
	err := unix.Uname(&name)
	return string(field(&name.Release)), err
}

func arch(volume.Record) (string, error) {
	var name unix.Utsname
	err := unix.Uname(&name)
	return string(field(&name.Machine)), err
}

// field is the text that uname(2) wrote into a field, which ends with a zero.
func field(f *[65]byte) []byte {
	text, _, _ := bytes.Cut(f[:], []byte{0})
	return text
}

func bootID(record volume.Record) (string, error) {
	attributes, err := AttributesOf(record)
	return attributes.BootID, err
}

// maxContent is enough for the content of every file, with its newline: a name of an object of
// Kubernetes has at most 253 bytes, and all else less.
const maxContent = 256

// content appends the file's content for a thread; with an error, nothing.
func (f *FS) content(buffer []byte, file *file, record volume.Record, thread uint32) ([]byte, error) {
	if file.live != nil {
		text, err := file.live(f, thread)
		if err != nil {
			return buffer, err
		}
		return append(append(buffer, text.bytes[:text.length]...), '\n'), nil
	}
	text, err := file.fixed(record)
	if err != nil {
		return buffer, err
	}
	buffer = append(buffer, text...)
	if file.mode == regular {
		buffer = append(buffer, '\n')
	}
	return buffer, nil
}
