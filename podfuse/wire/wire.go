// Package wire has what the processes of pod-fuse say to each other.
//
//	 in the pod                    pair (no privilege)              mounter (root)
//	launcher, proxy                       │                               │
//	   │ ── Request{serve} ─────────────> │ ── Order{serve}, its socket ─> │ checks, mounts
//	   │ <─────────── Answer, with the descriptor of /dev/fuse ──────────── │
//	   │                                  │ <── Event{served} ──────────── │ the program has answered
//	a reader                              │                               │
//	   │ ── touches the stand-in ───────> │ ── Order{attach}, its PID ───> │ attaches in its container
//	   │ <── ESTALE: walk again ───────── │ <── Event{attached} ────────── │
//
// All of it goes by package packet. A packet that carries a descriptor says so here. Whoever reads
// one that it did not ask for closes it.
//
// The pair reads what a pod wrote, and the mounter never does: an [Order] has only what the pair
// made of it, and the mounter compares every fact in it with root's records and the kernel.
package wire

import (
	"fmt"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/survive/volume"
)

// LongestPath is the longest mount point, in bytes, of which JSON may make six times as many.
const LongestPath = 2000

// LongestSubtype is the longest subtype of a file system, in bytes.
const LongestSubtype = 64

// IsSubtype tells whether a name can be the subtype of a program's file system: the type is then
// fuse.NAME.
func IsSubtype(name string) bool {
	const characters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"
	return len(name) <= LongestSubtype && strings.Trim(name, characters) == "" && !strings.HasPrefix(name, ".")
}

// MostMounts is how long a process's mountinfo may not be, in bytes: pair and mounter read less of
// it, which is enough for a thousand mounts and takes a millisecond. Who has as much or more has no
// volume, for both of them: if the pair had him wait, the mounter would never attach. So no kubelet
// waits because it has many volumes.
const MostMounts = 128 << 10

// Format is the number of this format, which each Request and Answer has: a launcher goes on
// when the node's driver has been upgraded. A driver answers older ones.
const Format = 1

// The names in a server volume.
const (
	Socket = "socket"   // of a Request
	Device = "fuse"     // a FIFO, which programs open instead of /dev/fuse
	Binary = "pod-fuse" // this program; also by the names of Proxies
	Mount  = "mnt"      // an empty directory, on which any user's program may have its own mount
)

// A server volume is three mounts, as mountinfo shows them, all of type tmpfs and of this Source:
//
//	DIR         /volume    the directory Shared, with Binary; the same for all pods of a version
//	DIR/fuse    /ID        the FIFO of this one volume: its name is the volume's id
//	DIR/socket  /socket    the socket; the same for all pods
//
// The file systems of the first and the last are read-only. A flag of a mount would protect
// nothing: a container's runtime clears it.
const (
	Source = "pod-fuse"
	Shared = "volume"
)

// Proxies are the names by which the binary stands in for fusermount(1).
var Proxies = []string{"fusermount3", "fusermount", "mergerfs-fusermount"}

// Kind is what a packet is for.
type Kind string

// Request is what a process in a pod asks for, by the socket of a server volume.
type Request struct {
	Format int  `json:"format"`
	Kind   Kind `json:"kind"` // Serve, Unmount, or Ready
	// Server is the server volume whose socket this is: the name of its directory, as mountinfo
	// shows it. The driver finds out whether the process has that volume.
	Server volume.ID `json:"server,omitempty"`
	Options
	// Mountpoint is where the program wants to see its own mount, in its own container: an
	// absolute path. "" for nowhere, as with /dev/fd/N. Of Unmount, where it is to go.
	Mountpoint string `json:"mountpoint,omitempty"`
}

// Options are those of a FUSE mount that a program may choose. The volume's author chooses
// default_permissions, too; allow_other, nosuid and nodev are always set.
type Options struct {
	ReadOnly           bool   `json:"readOnly,omitempty"`
	NoExec             bool   `json:"noExec,omitempty"`
	DefaultPermissions bool   `json:"defaultPermissions,omitempty"`
	MaxRead            int    `json:"maxRead,omitempty"` // bytes; 0: the kernel's most
	Subtype            string `json:"subtype,omitempty"` // mountinfo shows it
}

// Answer answers a Request. That of Serve comes with the descriptor of /dev/fuse, from the
// mounter, unless it has an Error, which comes from either.
type Answer struct {
	Format     int    `json:"format"`
	Error      string `json:"error,omitempty"`
	Again      bool   `json:"again,omitempty"`      // the Error may pass, as that of another program which serves
	Generation uint64 `json:"generation,omitempty"` // of Serve
	State      State  `json:"state,omitempty"`      // of Ready
	// Notice is for the user who reads what the program prints: it serves, but for nobody. Older
	// launchers pass over it.
	Notice string `json:"notice,omitempty"` // of Serve
}

// NoVolume is the Notice of a program whose server volume serves a volume that the pod does not
// have: all that its containers mount are there before any of them starts, and a volume that none
// mounts may be mounted later.
func NoVolume(name, driver string) string {
	return fmt.Sprintf("no volume %q of driver %s is mounted in this pod; the program serves nobody until there is one", name, driver)
}

// State is that of a client volume.
type State string

const (
	Waiting State = "waiting"      // no program has served it yet
	Served  State = "served"       // a program serves it
	Dead    State = "program dead" // its program has died; who asks waits
	Gone    State = "gone"         // nobody has served it for as long as was to be waited
)

// The kinds of a Request, an Order, and an Event.
const (
	Serve   Kind = "serve"   // Request, Order: a program is to serve a volume
	Unmount Kind = "unmount" // Request, Order: its own mount in its container is to go
	Ready   Kind = "ready"   // Request: is the volume served?

	Hello     Kind = "hello"     // Order: this process of the pair serves now; tell it everything
	Attach    Kind = "attach"    // Order: attach the program's mount where a process runs
	Spent     Kind = "spent"     // Order: nobody uses the connection of a dead program any more
	Counts    Kind = "counts"    // Order: how many wait, for status; 0 says that somebody has waited
	ServedNow Kind = "served"    // Event: the program of this generation has answered
	Died      Kind = "died"      // Event: the program of this generation is dead, with its connection; or, without, has left
	Attached  Kind = "attached"  // Event: Attach is done, or has failed
	Done      Kind = "done"      // Event: Serve or Unmount is done, or has failed; all has been told after Hello
	Forgotten Kind = "forgotten" // Event: the volume is unmounted
)

// Order is what the pair wants of the mounter.
type Order struct {
	Kind Kind `json:"kind"`
	// Ticket is in the Event that answers. Its sender chooses it so that no other process of
	// the pair has chosen the same.
	Ticket     uint64    `json:"ticket,omitempty"`
	Server     volume.ID `json:"server,omitempty"` // of Serve and Unmount: whose socket was asked
	Volume     volume.ID `json:"volume,omitempty"` // of Attach, Spent and Counts: the client volume
	Generation uint64    `json:"generation,omitempty"`
	PID        int       `json:"pid,omitempty"` // of Attach: the process, or a thread of it; 0: wherever the mount of a dead program is
	Options              // of Serve
	Mountpoint string    `json:"mountpoint,omitempty"` // of Serve and Unmount
	Waiting    int       `json:"waiting,omitempty"`    // of Counts
	// Accepted, of Serve and Unmount, is when the pair accepted the connection: a process that
	// began later is not the one that has connected. Before Linux 6.5.
	Accepted time.Duration `json:"accepted,omitempty"`
}

// SinceBoot is the clock of Accepted, and that by which the kernel tells when a process began (man
// 5 proc_pid_stat).
func SinceBoot() time.Duration {
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &now) // cannot fail
	return time.Duration(now.Nano())
}

// Event is what the mounter tells the pair.
type Event struct {
	Kind       Kind      `json:"kind"`
	Ticket     uint64    `json:"ticket,omitempty"` // of the Order that it answers, 0 for none
	Volume     volume.ID `json:"volume,omitempty"`
	Generation uint64    `json:"generation,omitempty"`
	Error      string    `json:"error,omitempty"`   // of Attached and Done
	Doubted    bool      `json:"doubted,omitempty"` // of Attached: the Error is that nobody knows yet whether the program lives
	// Since is when the program of Died did, or was unmounted; or not said. Who waits does so from
	// then on, whatever process of the pair he waits for.
	Since time.Time `json:"since,omitzero"`
}
