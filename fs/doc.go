// Package fs is the file system that pods see. Its root has one directory per
// volume, named by the volume's id, which the mount call-out binds into the
// pod. Each directory has these entries:
//
//	pod.uid       the pod's UID, from the volume's record
//	pod.nodename  the node's host name, asked of uname(2) at every read
//	pod           the process that reads the file: its PID on the host
//	pid           symbolic link to pod
//	node.NAME     the operator's facts, from their directory; see fact.go
//
// and those that somebody asked for. One table has them all: see files.go.
//
// # No state
//
// The file system keeps nothing in memory that it needs. Node ids are computed from the
// volume's id, and its record describes the volume. So any process that can read the records
// can answer any request, also one for a file that was opened while another process was
// serving: so a volume survives the daemon. Keep it so: no node tables, no file handles, no
// caches that a successor would miss; but for facts that are replaced while they are read,
// see fact.go.
//
// # What the kernel may cache
//
// Names in a volume never change, so they are cached for ever, and so are the
// attributes and pages of pod.uid. Names of the operator's facts are asked for at
// every open, and each version is an inode of its own, whose attributes and pages
// stay. The answers of pod depend on the reader, and pod.nodename may change at any
// time: they are opened with FOPEN_DIRECT_IO, and a read that would fill the page cache all the
// same (sendfile since Linux 6.5, a private mmap) is refused; see [FS.Read]. In the root
// no volume is cached, because volumes come and go.
//
// The attributes of pod and pod.nodename expire at once, as far as this package says. But
// to check permissions the kernel needs some that never change, and would ask for them at each
// open. So [FS.VaryingSizes] names the two, and from Linux 6.1 to 7.2 the kernel keeps mode and
// owner, and asks for size and times whenever a program does. How that is brought about, by which
// of the kernel's functions, says marks.go in package connection. The one exception is lseek(2)
// with SEEK_END, which takes the size from the inode (fs/fuse/file.c, fuse_file_llseek). Where
// another process asks at the same moment, the kernel may not put the answer there, and the end is
// that of another reader, or far beyond, where FIONREAD (ioctl(2)) always has it. To read until the
// end of the file is right at any time. On other kernels, opens ask.
//
// The package is not built on go-fuse's package of the same name, whose node
// ids differ from run to run.
package fs
