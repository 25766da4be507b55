package mounter

import (
	"os"
	"slices"

	"example.com/pod-info-fuse/internal/packet"
	"example.com/pod-info-fuse/internal/proc"
)

// environment bounds the runtime's threads. The caller's is left out: the kubelet's may hold
// secrets.
var environment = []string{"GOMAXPROCS=2"}

// start executes this process's own binary as a spare of this process, with an environment and the
// log, and returns our end of its link.
func (c Config) start(environment []string, log *os.File, more ...string) (link *os.File, process *os.Process, err error) {
	ours, theirs, err := packet.Pair()
	if err != nil {
		return nil, nil, err
	}
	defer theirs.Close()
	process, err = proc.StartSelf(environment, 0, slices.Concat([]string{Verb}, c.args(), more), theirs, log)
	if err != nil {
		ours.Close()
		return nil, nil, err
	}
	return ours, process, nil
}
