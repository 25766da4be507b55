package survive

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// noteOfRefusal is there while the driver refuses new volumes.
const noteOfRefusal = "no-new-volumes"

// RefuseNew has the driver refuse new volumes, or take them again. One that is being removed would
// otherwise never be without volumes on a node whose pods come and go. Where the driver has no run
// directory, it has no volumes, and nothing is noted. A reboot forgets it.
func (n Node) RefuseNew(refuse bool) (err error) {
	path := n.path(noteOfRefusal)
	if refuse {
		err = os.WriteFile(path, nil, 0o640)
	} else {
		err = os.Remove(path)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// RefusesNew tells whether the driver refuses new volumes.
func (n Node) RefusesNew() bool { return exists(n.path(noteOfRefusal)) }

// CheckNew is the error of a mount that would be of a new volume while the driver refuses them.
// A volume that is mounted, or has a record, is not new: its kubelet may repeat the call.
func (n Node) CheckNew() error {
	if !n.RefusesNew() {
		return nil
	}
	return fmt.Errorf("the driver is being removed from this node and takes no new volumes; "+
		"%s install takes the removal back", n.Program)
}
