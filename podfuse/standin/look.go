package standin

import (
	"slices"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/internal/later"
	"example.com/pod-info-fuse/survive/hold"
	"example.com/pod-info-fuse/survive/volume"
)

// looks are made at the processes whose requests have come: does a process have the view of a
// container, which waits for the program, or of the host, which does not? Is it of the program's
// own container? Which server volumes does it have?
//
// The kernel lists the mounts of a process under a lock that a pod can keep busy: while a process
// copies tens of thousands of mounts, each look at any process takes a tenth of a second
// (fs/namespace.c, namespace_sem). So nobody who reads requests looks. Looks are made one after the
// other, because each may take a thread, and this process ends where its cgroup has no room for
// another one. Pods take turns, however many volumes they have.
type looks = later.Queue[string]

// mostLooks is how many looks of a pod wait. Threads that ask and are killed, again and again,
// would otherwise add looks without an end.
const mostLooks = mostHeld

// hold has a look made at a process that may have a volume in its container. It returns false for
// one that cannot. The request of a process that turns out not to have it is answered then.
func (s *service) hold(v volume.Record, r hold.Request) bool {
	ofPod, may := s.processes.canBeContainer(r.PID, v)
	if !may {
		return false
	}
	turn := v.PodUID
	if !ofPod {
		turn = "host " + turn // does not wait for the pod
	}
	c, message := caller{s.standins, r.ID}, slices.Clone(r.Message)
	look := func() {
		if !s.standins.Waits(r.ID) {
			return
		}
		if view, is := s.processes.view(r.PID, v); !is {
			s.standins.Serve(message)
		} else if s.standins.Waits(r.ID) { // it may have been killed meanwhile
			s.outages.hold(v.ID(), view, r.PID, c)
		}
	}
	if !s.looks.Add(turn, look) {
		c.on.fail(c.id, fuse.Status(unix.ENOTCONN))
	}
	return true
}
