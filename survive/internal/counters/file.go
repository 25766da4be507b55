package counters

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/survive/internal/suspects"
)

// errOther says that a file is of another version, or not what root has made.
var errOther = errors.New("it is not of this version's layout")

// FileName is the name of the file, in the run directory.
const FileName = "counters"

// Open opens the file for a process that is about to be started, and makes it if it is not there.
// It replaces one of another layout, in which a process of the other version may go on counting.
// The file's memory is allocated: a page that is not there when it is touched would end the process
// with SIGBUS.
func Open(path string) (*os.File, error) {
	if file, err := open(path, os.O_RDWR); err == nil {
		return file, nil
	}
	return create(path, words[uint64]{Layout: layout})
}

// Fresh makes a file at a path for a process that is about to be started, with the counts of
// another file, and without what processes have noted of requests that they died of. A pair that
// was taken over can note what it likes in the other one, as long as it lives.
func Fresh(path, of string) (*os.File, error) {
	counts, err := Read(of)
	if err != nil {
		counts = Counts{Layout: layout}
	}
	counts.Suspects = suspects.Table{}
	return create(path, words[uint64](counts))
}

// create makes the file, whole, in the place of one that is there.
func create(path string, counts words[uint64]) (*os.File, error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	if _, err := file.WriteAt(counts.bytes(), 0); err != nil {
		file.Close()
		os.Remove(path)
		return nil, err
	}
	return file, nil
}

// Read returns the counts of a file, which a hostile process may have written. The error is
// fs.ErrNotExist if there is no file.
func Read(path string) (Counts, error) {
	file, err := open(path, os.O_RDONLY)
	if err != nil {
		return Counts{}, fmt.Errorf("read what the daemon has counted, %s: %w", path, err)
	}
	defer file.Close()
	var all words[uint64]
	if _, err := file.ReadAt(all.bytes(), 0); err != nil {
		return Counts{}, fmt.Errorf("read what the daemon has counted: %w", err)
	}
	return Counts(all), nil
}

// open opens a file that has our layout, and neither waits nor follows a link.
func open(path string, flags int) (*os.File, error) {
	file, err := os.OpenFile(path, flags|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if err := check(file); err != nil {
		file.Close()
		return nil, err
	}
	return file, nil
}

func check(file *os.File) error {
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() || info.Size() != int64(Size) {
		return errOther
	}
	var first words[uint64]
	if _, err := file.ReadAt(first.bytes()[:unsafe.Sizeof(first.Layout)], 0); err != nil {
		return err
	}
	if first.Layout != layout {
		return errOther
	}
	return nil
}

// Map returns the counters in a file that Open has opened, for the life of this process. Without a
// file, or if that fails, it counts where nobody looks.
func Map(file *os.File) (*Counters, error) {
	if file == nil {
		return new(Counters), nil
	}
	if err := check(file); err != nil {
		return new(Counters), fmt.Errorf("map the counters: %w", err)
	}
	memory, err := unix.Mmap(int(file.Fd()), 0, Size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return new(Counters), fmt.Errorf("map the counters: %w", err)
	}
	return (*Counters)(unsafe.Pointer(unsafe.SliceData(memory))), nil
}

func (w *words[T]) bytes() []byte { return unsafe.Slice((*byte)(unsafe.Pointer(w)), Size) }
