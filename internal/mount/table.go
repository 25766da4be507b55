package mount

import (
	"fmt"

	"github.com/moby/sys/mountinfo"
)

// Table is the mountinfo of this process, for a caller that asks about many mount points: to
// read it takes time with the number of mounts on the node. The zero value reads it
// when it is needed.
type Table struct {
	all  []*mountinfo.Info
	byID map[uint64]*mountinfo.Info
}

// Info returns what mountinfo says of the mount on a directory, nil when it is gone.
func (t *Table) Info(p *Point) (*mountinfo.Info, error) {
	if info := t.byID[p.stat.Mnt_id]; info != nil {
		return info, nil
	}
	if err := t.read(); err != nil { // not read yet, or mounted since
		return nil, fmt.Errorf("find the mount on %s: %w", p.Path, err)
	}
	return t.byID[p.stat.Mnt_id], nil
}

// All returns the mounts of a type and a source. It reads mountinfo if nobody has asked yet.
func (t *Table) All(fsType, source string) (found []*mountinfo.Info, err error) {
	if t.all == nil {
		if err := t.read(); err != nil {
			return nil, fmt.Errorf("list the mounts: %w", err)
		}
	}
	for _, info := range t.all {
		if info.FSType == fsType && info.Source == source {
			found = append(found, info)
		}
	}
	return found, nil
}

func (t *Table) read() error {
	infos, err := mountinfo.GetMounts(nil)
	if err != nil {
		return err
	}
	t.all = infos
	t.byID = make(map[uint64]*mountinfo.Info, len(infos))
	for _, info := range infos {
		t.byID[uint64(info.ID)] = info
	}
	return nil
}
