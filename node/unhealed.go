package node

import (
	"fmt"
	"os"

	"example.com/pod-info-fuse/volume"
)

// A daemon that dies leaves dead volumes, and whoever starts the next one and is to heal
// them may be killed: then a daemon serves, and they are dead. So it is noted, before
// it serves, that there is something to heal, until nothing is dead any more. To look
// at every volume would tell as well, but takes time with their number.

func (n Node) noteUnhealed() error {
	if err := volume.WriteFile(n.path("unhealed"), nil); err != nil {
		return fmt.Errorf("note that volumes are to be healed: %w", err)
	}
	return nil
}

// unhealed tells whether a volume can be dead although a daemon serves.
func (n Node) unhealed() bool { return exists(n.path("unhealed")) }

// noteHealed takes the note away. One that stays has the next call-out look for what
// is dead, in vain.
func (n Node) noteHealed() { _ = os.Remove(n.path("unhealed")) }
