package standin

import (
	"slices"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/internal/later"
	"example.com/pod-info-fuse/podfuse"
	"example.com/pod-info-fuse/survive/hold"
	"example.com/pod-info-fuse/survive/volume"
)

// looks read which mounts processes have. A look tells whether a request waits for the program, as
// a container's, or is answered at once, as the host's; whether a thread is of the program's own
// container; and which server volumes a client has.
//
// The kernel lists the mounts of a process under a lock that a pod can keep busy: while a process
// copies tens of thousands of mounts, each look at any process takes a tenth of a second
// (fs/namespace.c, namespace_sem). So the goroutine that reads requests reads no mounts. Looks are
// made one after the other, because each may take a thread, and this process ends where its cgroup
// has no room for another thread. Pods take turns, however many volumes they have. The host, and
// programs that are to serve, have a queue of their own: a pod chooses how long its mountinfo is.
type looks = later.Queue[string]

// mostLooks is how many looks of a pod wait. Threads that ask and are killed, again and again,
// would otherwise add looks without an end.
const mostLooks = mostHeld

// hold holds a request whose process may see the volume as a container does, until a look has told.
// It returns false if the cgroup rules that out. If the look says no, the request is answered as
// usual.
func (s *service) hold(v volume.Record, r hold.Request) bool {
	ofPod, may := s.processes.canBeContainer(r.PID, v)
	if !may {
		return false
	}
	queue := &s.looks
	if !ofPod {
		queue = &s.urgent
	}
	c, message := caller{s.standins, r.ID}, slices.Clone(r.Message)
	look := func() {
		defer func() {
			if reason := recover(); reason != nil {
				s.log("internal error while looking at process %d: %v", r.PID, reason)
				c.on.fail(c.id, fuse.EIO)
			}
		}()
		if !s.standins.Waits(r.ID) {
			return
		}
		view, is := s.processes.view(r.PID, v)
		if !is {
			s.standins.Serve(message)
			return
		}
		s.outages.hold(v.ID(), view, r.PID, c)
		if !s.standins.Waits(r.ID) { // it was killed meanwhile
			s.outages.interrupted(c)
		}
	}
	if !queue.Add(podfuse.PlainUID(v.PodUID), look) {
		c.on.fail(c.id, fuse.Status(unix.ENOTCONN))
	}
	return true
}
