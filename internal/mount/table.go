package mount

import (
	"fmt"
	"os"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
)

// Table is the mountinfo of this process, for a caller that asks about many mount points: to
// read it takes time with the number of mounts on the node. The zero value reads it
// when it is needed.
type Table struct {
	all    []*mountinfo.Info
	byID   map[uint64]*mountinfo.Info
	byPath map[string]*mountinfo.Info // of mounts stacked on one path, the one on top
}

// Info returns what mountinfo says of the mount on a directory, nil when it is gone.
func (t *Table) Info(p *Point) (*mountinfo.Info, error) {
	if info := t.of(p); info != nil {
		return info, nil
	}
	if err := t.read(); err != nil { // not read yet, or mounted since
		return nil, fmt.Errorf("find the mount on %s: %w", p.Path, err)
	}
	return t.of(p), nil
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

func (t *Table) of(p *Point) *mountinfo.Info {
	if p.stat.Mask&unix.STATX_MNT_ID != 0 { // Linux 5.8 and later
		return t.byID[p.stat.Mnt_id]
	}
	path, err := os.Readlink(p.procPath()) // with the links in its middle resolved
	if err != nil {
		path = p.Path
	}
	return t.byPath[path]
}

func (t *Table) read() error {
	infos, err := mountinfo.GetMounts(nil)
	if err != nil {
		return err
	}
	t.all = infos
	t.byID = make(map[uint64]*mountinfo.Info, len(infos))
	t.byPath = make(map[string]*mountinfo.Info, len(infos))
	for _, info := range infos { // the one on top comes last
		t.byID[uint64(info.ID)] = info
		t.byPath[info.Mountpoint] = info
	}
	return nil
}
