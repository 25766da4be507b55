package fs

import (
	"sync"

	"example.com/pod-info-fuse/volume"
)

// records reads the records of volumes, and keeps some of them for the requests that
// follow. Only a cache: a record is good as long as its file is the one that was read,
// which is asked each time.
type records struct {
	volumes volume.Store

	mu   sync.Mutex // guards what follows
	kept [32]keptRecord
}

type keptRecord struct {
	id      volume.ID
	version volume.Version
	record  volume.Record
}

// get returns a record as it is now.
func (r *records) get(id volume.ID) (volume.Record, error) {
	version, err := r.volumes.Version(id)
	if err != nil {
		return volume.Record{}, err
	}
	if record, good := r.find(id, version); good {
		return record, nil
	}
	record, err := r.volumes.Get(id)
	if err == nil {
		// Should the file have been replaced meanwhile, the version is of the one
		// before, and the next request reads again.
		r.keep(keptRecord{id, version, record})
	}
	return record, err
}

func (r *records) find(id volume.ID, version volume.Version) (volume.Record, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	k := &r.kept[slot(id)]
	return k.record, k.id == id && k.version == version
}

func (r *records) keep(k keptRecord) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.kept[slot(k.id)] = k
}

func slot(id volume.ID) int { return int(uint64(id) % uint64(len(records{}.kept))) }
