package iofs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"sync"
	"time"
)

// files are open ones that nobody reads at the moment, the one that was read last at the end.
type files struct {
	mu   sync.Mutex // guards idle
	idle []file
}

// file is an open file of the tree.
type file struct {
	fs.File
	of     *node
	offset int64 // where a stream is; 0 for what is read by offset
}

const mostIdle = 32

// skipTime is how long a stream is read in vain for one request. It is well before the standby
// takes a process for one that hangs. A test sets it.
var skipTime = 2 * time.Second

// skipSize is how much of it is read at a time.
const skipSize = 64 << 10

// errLate says that a stream has not come to an offset in that time.
var errLate = errors.New("the file is a stream, and its beginning takes longer to read than a request may")

// read reads a file from an offset, to the end of the buffer or of the file.
func (f *files) read(content fs.FS, of *node, buffer []byte, offset int64) (int, error) {
	if offset >= of.size {
		return 0, nil
	}
	buffer = buffer[:min(int64(len(buffer)), of.size-offset)]
	opened := f.take(of, offset)
	if opened.File == nil {
		var err error
		if opened.File, err = content.Open(of.path); err != nil {
			return 0, err
		}
	}
	n, err := opened.read(buffer, offset)
	if readOn := err == nil && opened.offset < of.size; readOn || errors.Is(err, errLate) {
		f.put(opened)
	} else {
		opened.Close()
	}
	return n, err
}

// take returns the idle file that is nearest to an offset, and not behind it. Its File is nil if
// there is none.
func (f *files) take(of *node, offset int64) file {
	f.mu.Lock()
	defer f.mu.Unlock()
	best := -1
	for i, idle := range f.idle {
		if idle.of == of && idle.offset <= offset && (best < 0 || idle.offset > f.idle[best].offset) {
			best = i
		}
	}
	if best < 0 {
		return file{of: of}
	}
	taken := f.idle[best]
	f.idle = slices.Delete(f.idle, best, best+1)
	return taken
}

func (f *files) put(opened file) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.idle) == mostIdle {
		f.idle[0].Close()
		f.idle = slices.Delete(f.idle, 0, 1)
	}
	f.idle = append(f.idle, opened)
}

// read fills the buffer, which does not end after the file.
func (f *file) read(buffer []byte, offset int64) (n int, err error) {
	switch by := f.File.(type) {
	case io.ReaderAt:
		n, err = by.ReadAt(buffer, offset)
	default:
		return f.readStream(buffer, offset)
	}
	if n == len(buffer) {
		return n, nil
	}
	return 0, f.short(err)
}

// readStream reads what is before the offset, too, and at the end makes sure that it is the end:
// then a checksum is compared.
func (f *file) readStream(buffer []byte, offset int64) (n int, err error) {
	var skipped []byte // the buffer may have a byte, at the end of a file
	for begun := time.Now(); f.offset < offset; {
		if time.Since(begun) > skipTime {
			return 0, errLate
		}
		if skipped == nil {
			skipped = make([]byte, skipSize)
		}
		n, err := io.ReadFull(f, skipped[:min(skipSize, offset-f.offset)])
		if f.offset += int64(n); err != nil {
			return 0, f.short(err)
		}
	}
	n, err = io.ReadFull(f, buffer)
	if f.offset += int64(n); err != nil {
		return 0, f.short(err)
	}
	if f.offset == f.of.size {
		var more [1]byte
		if m, err := io.ReadFull(f, more[:]); m != 0 {
			return 0, fmt.Errorf("it is longer than %d bytes", f.of.size)
		} else if err != io.EOF {
			return 0, err
		}
	}
	return n, nil
}

// short is the error of a file that ended before its size.
func (f *file) short(err error) error {
	if err == nil || err == io.EOF || err == io.ErrUnexpectedEOF {
		return fmt.Errorf("it is shorter than %d bytes: %w", f.of.size, io.ErrUnexpectedEOF)
	}
	return err
}
