// Package volume keeps the node's volumes: one record each, a small file named
// by the volume's id. The records are all the state that there is. Whoever
// can read them can serve every volume, which is why a daemon that dies loses
// nothing.
package volume

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const suffix = ".json"

// Store is the directory of the records.
type Store struct {
	Dir string
}

// Get reads a record. The error is fs.ErrNotExist when there is none.
func (s Store) Get(id ID) (Record, error) {
	path := s.path(id)
	data, err := os.ReadFile(path)
	if err != nil {
		return Record{}, err
	}
	record, err := Decode(data)
	if err == nil && record.ID() != id {
		err = fmt.Errorf("it is of directory %q, which has id %s", record.Dir, record.ID())
	}
	if err != nil {
		return Record{}, fmt.Errorf("record %s: %w", path, err)
	}
	return record, nil
}

// Put writes a record in one step: readers see all of it or nothing.
func (s Store) Put(record Record) error {
	data, err := record.Encode()
	if err != nil {
		return err
	}
	return WriteFile(s.path(record.ID()), data)
}

// Delete removes a record. One that is not there is not an error.
func (s Store) Delete(id ID) error {
	if err := os.Remove(s.path(id)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// IDs lists the volumes that have a record, in ascending order.
func (s Store) IDs() ([]ID, error) {
	directory, err := os.Open(s.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	defer directory.Close()
	names, err := directory.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	ids := make([]ID, 0, len(names))
	for _, name := range names {
		// Whatever else lies here, such as a record in the making, is passed over.
		if name, isRecord := strings.CutSuffix(name, suffix); isRecord {
			if id, err := ParseID(name); err == nil {
				ids = append(ids, id)
			}
		}
	}
	slices.Sort(ids)
	return ids, nil
}

func (s Store) path(id ID) string {
	return filepath.Join(s.Dir, id.String()+suffix)
}
