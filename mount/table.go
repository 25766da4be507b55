package mount

import (
	"fmt"

	"github.com/moby/sys/mountinfo"
)

// Table is the mountinfo of this process, for whoever asks about many mount points: to
// read it takes time with the number of mounts on the node. The zero value reads it
// when it is needed.
type Table struct {
	byID   map[uint64]*mountinfo.Info
	byPath map[string]*mountinfo.Info // of mounts stacked on one path, the one on top
}

// Info returns what mountinfo says of the mount on a directory, nil when it is gone.
func (t *Table) Info(p *Point) (*mountinfo.Info, error) {
	info := t.of(p)
	if info == nil { // not read yet, or mounted since
		if err := t.read(); err != nil {
			return nil, fmt.Errorf("find the mount on %s: %w", p.Path, err)
		}
		info = t.of(p)
	}
	return info, nil
}

func (t *Table) of(p *Point) *mountinfo.Info {
	if id, ok := p.mountID(); ok {
		return t.byID[id]
	}
	return t.byPath[p.realPath()]
}

func (t *Table) read() error {
	infos, err := mountinfo.GetMounts(nil)
	if err != nil {
		return err
	}
	t.byID = make(map[uint64]*mountinfo.Info, len(infos))
	t.byPath = make(map[string]*mountinfo.Info, len(infos))
	for _, info := range infos { // the one on top comes last
		t.byID[uint64(info.ID)] = info
		t.byPath[info.Mountpoint] = info
	}
	return nil
}
