// Package volume knows the volumes of a driver on a node: their ids, their records, and the
// root of the file system that serves them, which has a directory for each.
//
// A volume is known by the directory that the kubelet mounts it on, and its id is a hash of
// that path. Its record is a small file, named by the id, with the kubelet's words on the pod
// and the driver's attributes. The records are all the state that there is: any process that
// can read them can serve every volume, so a process that dies takes nothing with it. They
// are in memory, below /run, and end with the node's kernel, as the mounts do.
//
// Stored data outlives the version that wrote it, and says its format. A version that meets a
// newer format refuses it with [ErrNewer], before it takes over from the version that serves.
package volume

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

const suffix = ".json"

// Store is the directory of the records.
type Store struct {
	Dir string
}

// Get reads a record. The error is fs.ErrNotExist when there is none.
func (s Store) Get(id ID) (Record, error) {
	data, err := s.read(id, make([]byte, 0, usual))
	if err != nil {
		return Record{}, err
	}
	return s.decode(id, data)
}

// usual is the size, in bytes, that hardly any record exceeds.
const usual = 512

// read reads the file of a record into a buffer, or a larger one. The daemon does so at every
// lookup, and os.ReadFile would ask the kernel seven times more.
func (s Store) read(id ID, buffer []byte) (data []byte, err error) {
	path := s.path(id)
	// A FIFO would make us wait.
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(fd)
	for data = buffer[:0]; ; data = slices.Grow(data, cap(data)) {
		n, err := unix.Read(fd, data[len(data):cap(data)])
		if err != nil {
			return nil, &fs.PathError{Op: "read", Path: path, Err: err}
		}
		if data = data[:len(data)+n]; len(data) < cap(data) {
			return data, nil // of a regular file, all that is left is read at once (read(2))
		}
	}
}

func (s Store) decode(id ID, data []byte) (Record, error) {
	record, err := Decode(data)
	if err == nil && record.ID() != id {
		err = fmt.Errorf("it is of directory %q, which has id %s", record.Dir, record.ID())
	}
	if err != nil {
		return Record{}, fmt.Errorf("record %s: %w", s.path(id), err)
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

// Check returns an error that wraps [ErrNewer] if a newer version wrote a record, according to
// the record itself or to check, which may be nil. It skips those that cannot be read for
// another reason.
func (s Store) Check(check func(Record) error) error {
	ids, err := s.IDs()
	if err != nil {
		return err
	}
	for _, id := range ids {
		record, err := s.Get(id)
		if err == nil && check != nil {
			err = check(record)
		}
		if errors.Is(err, ErrNewer) {
			return fmt.Errorf("volume %s: %w", id, err)
		}
	}
	return nil
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
	entries, err := os.ReadDir(s.Dir) // in the order of their names, which is that of the ids
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	ids := make([]ID, 0, len(entries))
	for _, entry := range entries {
		// Other files, such as a record in the making, are skipped.
		name, isRecord := strings.CutSuffix(entry.Name(), suffix)
		if id, err := ParseID(name); isRecord && err == nil {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

func (s Store) path(id ID) string { return filepath.Join(s.Dir, id.String()+suffix) }

// WriteFile replaces the file at path by one with this content. It never
// leaves half a file under that name, also when the process dies; after a power
// failure there is nothing to protect, because the run directory is in memory. Its
// group, which can read it, is that of the directory: the daemon's.
func WriteFile(path string, data []byte) error {
	file, err := os.CreateTemp(filepath.Dir(path), ".new-*")
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	if err = cmp.Or(err, file.Chmod(0o640), file.Close()); err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		os.Remove(file.Name())
	}
	return err
}
