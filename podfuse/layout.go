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
//	servers/         a tmpfs, with a directory for each server volume, that is bound into the pod
//	  binary         one copy of this program, which they have links to, and its version
//	  socket         of requests, which they have links to; the pair answers
//	server-volumes/  records of server volumes
//	mounter          the mounter's socket, for root
type Layout struct{ RunDir string }

// Clients are the records of client volumes, as package survive keeps them.
func (l Layout) Clients() volume.Store { return volume.Store{Dir: l.path("volumes")} }

// ServerVolumes are the records of server volumes. The daemon's group can read them.
func (l Layout) ServerVolumes() volume.Store { return volume.Store{Dir: l.path("server-volumes")} }

// Servers is the mount point of the tmpfs, and ServerDir what is bound into a pod.
func (l Layout) Servers() string               { return l.path("servers") }
func (l Layout) ServerDir(id volume.ID) string { return filepath.Join(l.Servers(), id.String()) }

// MounterSocket is where the mounter listens to root.
func (l Layout) MounterSocket() string { return l.path("mounter") }

// FS is the node mount, whose directories are the stand-ins.
func (l Layout) FS() string { return l.path("fs") }

// Socket is where the pair listens to pods.
func (l Layout) Socket() string { return filepath.Join(l.Servers(), wire.Socket) }

func (l Layout) path(name string) string { return filepath.Join(l.RunDir, name) }
