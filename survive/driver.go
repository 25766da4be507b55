package survive

import (
	"os"

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
	// InputFile: Settings.Input may also name a regular file.
	InputFile bool
	// State is how many bytes of memory the processes that serve share, as [Site.State]; the most
	// is 1 MiB. It keeps its content when a process dies, hangs or is replaced, also by a version
	// that has the same State. Where all processes have died, and in a version that has another
	// State, its bytes are 0 at first.
	State int
	// Reads lists the files and directories that the file system must read beside the
	// site's; nil: none. The kernel refuses all others to it.
	Reads func() []string
	// Companion is the process beside the two that serve; nil: none.
	Companion func(n Node) Companion
	// OtherVolumes are the node's volumes that its call-outs mount beside those of [CallOuts]; nil:
	// none.
	OtherVolumes func(n Node) OtherVolumes
	// Sockets lets the two processes serve clients by sockets that the Companion gives: they may
	// have 4096 descriptors open in the place of 128. They may send descriptors by the last of
	// [Site.CompanionFiles], which must be a connected socket of type SOCK_SEQPACKET. On everything
	// else, also on a duplicate of it, sendmsg(2) is denied: use write(2).
	Sockets bool
}

// Site is what a file system is given by the process that serves it.
type Site struct {
	Volumes volume.Store // the records of the node's volumes
	// Input is the directory, or the file, that Settings name, open; nil for none. A file system
	// that goes by its path, or to what is mounted in it, may wait for ever for another file
	// system; openat2(2) with this descriptor and RESOLVE_NO_XDEV does not.
	Input *os.File
	// CompanionFiles are the descriptors of the [Companion], in the order in which it gave them.
	// All processes of the pair have the same, and one hands them on to the next: do not close
	// them. A call-out has none.
	CompanionFiles []*os.File
	// Config is that of Settings. All processes of a pair have the same.
	Config string
	// State is the memory of Driver.State bytes that all processes of the pair have mapped. Two may
	// use it at the same time, for moments, and one can die in the middle of a write: use package
	// sync/atomic, or write so that what is half written can be told. A pointer means nothing
	// there. A version reads what the version before has written, which somebody may have taken
	// over. A call-out has memory of its own.
	State []byte
	// CallOut: this is not a process that serves, but the call-out that mounts, in which the file
	// system answers FUSE_INIT and nothing else.
	CallOut bool
	// Report logs a line. It may be called from any goroutine.
	Report func(problem string)
}

// Settings are those of one installation of a driver, from its configuration.
type Settings struct {
	Log   string // where lines go: "syslog" or "", "off", or the path of a file
	Label string // the SELinux context to mount with; "" for what the policy says
	Input string // a directory on a local file system that the file system reads, beside the volumes' records, or see Driver.InputFile; "" for none
	// Config is what the file system is to know of the configuration, for [Site]: a text of at most
	// 64 KiB, without a zero byte. When it has changed, the next call-out starts the pair anew, as
	// in an upgrade.
	Config string
}

// Companion is a process beside the pair, of the driver's own: one with rights that the pair must
// not have, for example. A call-out starts it, as root, and gives descriptors of it to the pair,
// such as an end of a pair of sockets and a socket that listens.
//
// Each process of the pair has the same descriptors, in [Site.CompanionFiles], and hands them on to
// the next: a standby takes over with what it has. The first process of a pair, and of another
// version, gets them from Give.
type Companion interface {
	// Ensure makes sure that the process is there, in this version. Each mount calls it, also
	// several at the same time, so it must be quick when all is well. Its error fails the mount.
	// The identity is a short text that is another one when what was given before is of no use any
	// more: the pair is then started anew, as in an upgrade. If that fails, the pair goes on with
	// what it has, and so does the one of another version that an upgrade could not replace.
	Ensure() (identity string, err error)
	// Identity returns that of the process that is there, and "" if there is none. It starts none.
	Identity() (string, error)
	// Give returns the descriptors for a process of the pair that is about to be started. It
	// follows Ensure. The caller closes them.
	Give() ([]*os.File, error)
	// Stop ends the process. The pair has ended, and will not be started any more.
	Stop() error
}
