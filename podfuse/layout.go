// Package podfuse is the second driver: it lets any FUSE program in an unprivileged pod serve a
// volume of that pod, and the volume survives the program.
//
// The kubelet's directory and every container get a stand-in: a directory of the driver's own FUSE
// mount, which the unprivileged pair of processes serves (package standin). The program's own mount
// is never on the host. It is in the vault, a mount namespace of the mounter's (package mounter).
// The mounter puts it on top of the stand-in in the pod's containers.
//
//	host, kubelet        container `app`                   container `sshfs`
//	┌──────────────┐     ┌────────────────────────────┐    ┌───────────────────────────┐
//	│ DIR          │     │ /data                      │    │ /run/pod-fuse             │
//	│  └ stand-in ─┼──── │  ├ stand-in                │    │  pod-fuse  fusermount3    │
//	│              │     │  └ the program's mount ────┼─┐  │  fuse (FIFO)   socket ────┼─┐
//	└──────────────┘     └────────────────────────────┘ │  └───────────────────────────┘ │
//	                requests of containers ↓            │            requests ↓          │
//	┌─────────────────────────────────────┐  orders   ┌─┴──────────────────────────────┐ │
//	│ the pair: no privilege              │ ────────> │ the mounter: root, and a spare │ │
//	│ stand-ins, sockets, those who wait  │ <──────── │ vault, /dev/fuse, attaching    │ │
//	└─────────────────────────────────────┘  events   └────────────────────────────────┘ │
//	          └──────────────────────────────────────────────────────────────────────────┘
//
// The pair does not answer a process that touches a stand-in in a container until the program's
// mount is in place and the program is certain to live. Then it answers ESTALE, and the kernel
// walks the path again and finds the mount. The same happens on the connection of a program that
// has died, which the mounter keeps open. The host gets an answer at once: the directory is empty,
// and every name in it is a directory, so that the kubelet can prepare a subPath.
package podfuse

import (
	"path/filepath"

	"example.com/pod-info-fuse/podfuse/wire"
	"example.com/pod-info-fuse/survive/volume"
)

// Layout is where the driver keeps what it has beside other drivers on package survive, in its
// run directory. All of it belongs to root.
//
//	servers/         a tmpfs with a FIFO for each server volume, which only its pod sees
//	launcher/        a tmpfs that is read-only: what server volumes have in common, but for
//	socket/          a tmpfs that is read-only: the socket of requests; the pair answers
//	server-volumes/  records of server volumes
//	mounter          the mounter's socket, for root
//	connections/     what the mounter knows of each program
type Layout struct{ RunDir string }

// Clients are the records of client volumes, as package survive keeps them.
func (l Layout) Clients() volume.Store { return volume.Store{Dir: l.path("volumes")} }

// ServerVolumes are the records of server volumes. The daemon's group can read them.
func (l Layout) ServerVolumes() volume.Store { return volume.Store{Dir: l.path("server-volumes")} }

// Servers is the mount point of the tmpfs of FIFOs. A process that has the FIFO of a server volume
// mounted is one of its pod's: mountinfo shows the name of the FIFO, which is the volume's id.
func (l Layout) Servers() string { return l.path("servers") }

// FIFO is what a pod has in the place of /dev/fuse.
func (l Layout) FIFO(id volume.ID) string { return filepath.Join(l.Servers(), id.String()) }

// Launcher is the mount point of the tmpfs with what server volumes have in common, and Shared the
// directory of it that a server volume shows.
func (l Layout) Launcher() string { return l.path("launcher") }
func (l Layout) Shared() string   { return filepath.Join(l.Launcher(), wire.Shared) }

// MounterSocket is where the mounter listens to root.
func (l Layout) MounterSocket() string { return l.path("mounter") }

// Connections is where the mounter has a file for each program's connection.
func (l Layout) Connections() string { return l.path("connections") }

// FS is the node mount, whose directories are the stand-ins.
func (l Layout) FS() string { return l.path("fs") }

// SocketDir is the mount point of the tmpfs with the socket, and Socket where the pair listens to
// pods.
func (l Layout) SocketDir() string { return l.path("socket") }
func (l Layout) Socket() string    { return filepath.Join(l.SocketDir(), wire.Socket) }

func (l Layout) path(name string) string { return filepath.Join(l.RunDir, name) }
