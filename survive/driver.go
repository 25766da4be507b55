package survive

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"example.com/pod-info-fuse/flex"
	"example.com/pod-info-fuse/internal/calllog"
	"example.com/pod-info-fuse/internal/confine"
	"example.com/pod-info-fuse/survive/internal/connection"
	"example.com/pod-info-fuse/survive/internal/pair"
	"example.com/pod-info-fuse/survive/volume"
)

// Driver describes a driver once, for all of its processes: call-outs, commands, and the
// two that serve.
type Driver struct {
	// Program names what the driver has on a node: the directory /run/PROGRAM, the type
	// fuse.PROGRAM of its file systems, its cgroups, its processes, and the tag of its lines
	// in the log. It consists of lower-case letters, digits and dashes; a process's name is
	// cut after 15 of them. With the driver's name, it has at most 93 bytes: see
	// [Driver.CheckName].
	Program string
	// Version is that of this binary: a text of 1 to 256 bytes. A call-out of another version
	// than the one that serves has its own take over.
	Version string
	// FileSystem makes the file system. Every process that serves calls it, once, and each must
	// give the same answers: see [FileSystem]. The process is confined by then: to open anything
	// but the site's, and what Reads lists, fails. FileSystem may then panic or return nil, and the
	// mount fails. A call-out that mounts calls it as well, as root and without an input, to learn
	// which of the interfaces below it implements, and what varies. The call-out has it answer no
	// other request than the first one, FUSE_INIT, so that it need not open anything there.
	FileSystem func(Site) FileSystem
	// CheckRecord looks at a record before this version takes over from the one that serves,
	// and only an error that wraps [volume.ErrNewer] keeps it from that: what is merely damaged,
	// no other version can read either. nil: this version can serve all.
	CheckRecord func(volume.Record) error
	// MaxRead is the largest read, in bytes; 0 for 16 KiB, or a page where that is larger.
	// More costs locked memory: twice as much for each process that serves. The most is
	// 128 KiB. It holds for as long as the node's file system is mounted: that of a new
	// version takes effect after the command stop, or a reboot.
	MaxRead int
	// Reads lists the files and directories that the file system must read beside the
	// site's; nil: none. The kernel refuses all others to it.
	Reads func() []string
	// Companion is the process beside the two that serve; nil: none.
	Companion func(n Node) Companion
	// Others are the node's volumes that its call-outs mount beside those of [CallOuts]; nil: none.
	Others func(n Node) Others
	// Sockets lets the two processes serve clients by sockets that the Companion gives: accept them,
	// and send to them, also descriptors, and have 4096 descriptors open in the place of 128.
	Sockets bool
}

// User is the user and the group of the two processes that serve.
type User = confine.User

// Site is what a file system is given by the process that serves it.
type Site struct {
	Volumes volume.Store // the records of the node's volumes
	// Input is the directory that Settings name, open; nil for none. A file system that goes
	// by its path, or to what is mounted in it, may wait for ever for another file system;
	// openat2(2) with this descriptor and RESOLVE_NO_XDEV does not.
	Input *os.File
	// Given are the descriptors of the [Companion], in the order in which it gave them. All
	// processes of the pair have the same, and one hands them on to the next: do not close them. A
	// call-out has none.
	Given []*os.File
	// Report logs a line. It may be called from any goroutine.
	Report func(problem string)
}

// FileSystem answers the kernel's requests, in every process that serves, one after the
// other and for moments at the same time. What it needs to survive the change from one
// process to the next:
//
//   - A fresh process can answer for any node id: ids are computed, from the volume's id and
//     what the node is in it, and never handed out by a counter or kept in a table.
//   - There are no handles: Open and OpenDir leave Fh at 0, and Read and ReadDir know from
//     the node id and the offset what they are to return.
//   - A cache may be lost at any time. What a node id stands for does not depend on one.
//   - Lookup counts are nobody's: Forget does nothing.
//
// Some things are the same for every file system:
//
//   - All is read-only: a request that would change something is answered with EROFS.
//   - There are no extended attributes: ENOSYS, after which the kernel does not ask again.
//   - The kernel remembers where a symbolic link leads for as long as it knows the node id.
//     A link that is to lead elsewhere needs another one.
//   - It remembers names and attributes for as long as Lookup and GetAttr say. A listing has
//     names only: ReadDirPlus is not called.
//   - There are no locks: flock(2) and fcntl(2) get EOPNOTSUPP, since one that a process keeps
//     would be lost with it.
//
// It is called by several goroutines at the same time. It may also be a [Sharer], a [Prompter],
// a [Varier] and a [Holder].
type FileSystem = connection.FileSystem

// Sharer is implemented by file systems whose nodes belong to volumes, which are served in
// turn. One that is none has all of its requests answered in the order in which they come.
type Sharer = connection.Sharer

// Prompter is implemented by file systems that answer some requests without any wait. Its
// method, IsPrompt(node uint64, names bool) bool, tells so of the requests for names in a
// directory (Lookup, ReadDir), or of all others about a node. Of the answers that may take long,
// one is given at a time, so that the others are never waited for, but for two cases: an answer
// that takes more than a second, and, before Linux 6.9 or of a name of more than 119 bytes, a
// second one at the same time. Without a Prompter, every answer may take long.
type Prompter = connection.Prompter

// Varier is implemented by file systems with files whose size depends on who asks. Its method,
// Varying() []uint8, returns the numbers that these files have in each volume (volume.Node).
// The kernel keeps what it needs of them to check permissions, so that an open asks for
// nothing else; that is so from Linux 6.1 on, and before, every open asks for attributes.
//
// They are regular files in the directory of a volume, whose mode and owner never change, and
// Open sets FOPEN_DIRECT_IO. GetAttr answers for them also where there is no such volume. Lookup
// and GetAttr give their attributes no time of validity.
type Varier = connection.Varier

// Holder is implemented by file systems some of whose answers come late, minutes after they were
// asked for. Until then no worker waits, and no other reader. Its methods are
//
//	Hold(r Request) bool
//	Interrupted(id uint64)
//	Begin(a Answerer) (end func())
//
// Begin is called when this process begins to serve, and what it returns when that has ended. All
// requests that were held then, by whatever process, are asked about again.
//
// Hold is asked about every request that somebody waits for when it is read, in the order in which
// they come and by one goroutine. False: it is answered like any other. True: it is the file
// system's, which ends it by [Answerer] with an error, and with no other answer. ESTALE has the kernel
// walk the path once more, in which it finds what was mounted there meanwhile. Hold is asked
// before what would change something is refused. It must not wait, as all requests wait for it, nor
// hold what ends nothing: a RELEASE, which no signal ends, or a request that this process itself
// waits for.
//
// Interrupted is told that a request was answered: with EINTR, as its reader is about to die of a
// signal, or as the kernel limits the time of requests, below. It may be called from any goroutine. Where
// Driver.Reads has no /proc, every signal counts.
//
// A request is held for two thirds of the kernel's limit at most (fs.fuse.max_request_timeout, 0 by default;
// Linux 6.15), and ends with ENOTCONN: the kernel would abort the connection, which is that of all readers. With
// such a limit, requests that another process had held end with ESTALE, as before Linux 6.9.
//
// Hold GETATTR where you can: for a directory whose attributes have no time of validity, the kernel
// asks for them whenever a path goes through it, and has no lock meanwhile. While a LOOKUP is held, or
// what would change the directory, nothing can be mounted on that directory, and another reader of
// that name waits in the kernel, where no signal ends it (fs/namespace.c, do_lock_mount;
// fs/dcache.c, d_alloc_parallel).
//
// Before Linux 6.9, requests that are held are ended with ESTALE when another process
// begins to serve: so path operations are asked for again, and those that were asked for
// again already, or have an open file, show the error to the reader.
type Holder = connection.Holder

// Request is what a [Holder] is asked about.
type Request = connection.Request

// Answerer is by what a [Holder] answers.
type Answerer = connection.Answerer

// Settings are those of one installation of a driver, from its configuration.
type Settings struct {
	Log   string // where lines go: "syslog" or "", "off", or the path of a file
	Label string // the SELinux context to mount with; "" for what the policy says
	Input string // a directory on a local file system that the file system reads, beside the volumes' records; "" for none
}

// On returns the presence on this node of the installation that has a name. It touches
// nothing.
func (d Driver) On(name flex.Name, settings Settings) Node {
	return Node{
		Driver: d, Name: name, Settings: settings,
		RunDir: filepath.Join("/run", d.Program, name.Dir()),
		log:    calllog.New(d.Program, settings.Log),
	}
}

// CheckName returns an error if the driver cannot have an installation of this name: both
// its own name and that of the program are in the path of a socket. It checks the program's
// name and the version, too.
func (d Driver) CheckName(name flex.Name) error {
	const longest = 107 // bytes (man 7 unix)
	if strings.TrimLeft(d.Program, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" || d.Program == "" || d.Program[0] == '-' {
		return fmt.Errorf("the program's name %q does not consist of lower-case letters, digits and dashes", d.Program)
	}
	if len(d.Version) == 0 || len(d.Version) > 256 || !utf8.ValidString(d.Version) {
		return fmt.Errorf("the driver's version %.20q, of %d bytes, is no text of 1 to 256 bytes", d.Version, len(d.Version))
	}
	if more := len(d.On(name, Settings{}).socket()) - longest; more > 0 {
		return fmt.Errorf("the driver's name %q has %d bytes, and its program's, %q, %d: together they are %d too long for the path of a socket",
			name, len(name.String()), d.Program, len(d.Program), more)
	}
	return nil
}

// Internal returns what executes a command that the driver starts by itself, nil for any
// other. A driver's main calls it before it looks for commands of its own.
func (d Driver) Internal(command string) func(args []string) error {
	switch command {
	case pair.Verb:
		return d.serve
	case healVerb:
		return healNamespace
	}
	return nil
}

func notByHand(command string) error {
	return fmt.Errorf("%q is what the driver starts by itself, not a command", command)
}

// options are what holds for a connection that this version begins.
func (d Driver) options() connection.Options {
	return connection.Options{MaxRead: cmp.Or(d.MaxRead, connection.Default.MaxRead)}
}

// fsType is the type that mountinfo shows for the driver's file systems.
func (d Driver) fsType() string { return "fuse." + d.Program }

// cgroupName begins the names of the cgroups of the node's driver.
func (n Node) cgroupName() string { return n.Program + "-" + n.Name.String() }
