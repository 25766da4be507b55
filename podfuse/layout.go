// Package podfuse is the second driver: it lets any FUSE program in an unprivileged pod serve a
// volume of that pod, and the volume survives the program.
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

// FS is the node mount, whose directories are the stand-ins.
func (l Layout) FS() string { return l.path("fs") }

// SocketDir is the mount point of the tmpfs with the socket, and Socket where the pair listens to pods.
func (l Layout) SocketDir() string { return l.path("socket") }
func (l Layout) Socket() string    { return filepath.Join(l.SocketDir(), wire.Socket) }

func (l Layout) path(name string) string { return filepath.Join(l.RunDir, name) }
