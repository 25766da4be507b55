package install

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
)

// maxBinary is the most that is read of a binary, in bytes.
const maxBinary = 1 << 30

// Content is what is installed.
type Content struct {
	Binary *os.File // is read from its beginning
	Config []byte   // of config.json; nil: what is there stays
}

// installed tells whether the target has the content already, executable for all.
func (t Target) installed(c Content) (bool, error) {
	if info, err := os.Lstat(t.Dir()); err == nil && info.Mode().Perm() != 0o755 {
		return false, nil
	}
	same, err := sameFile(t.Binary(), io.NewSectionReader(c.Binary, 0, maxBinary), 0o755)
	if err != nil || !same || c.Config == nil {
		return same, err
	}
	return sameFile(t.config(), reader(c.Config), 0o644)
}

// anyMode is for sameFile.
const anyMode fs.FileMode = 0

// sameFile tells whether a file has a content and a mode.
func sameFile(path string, content io.Reader, mode fs.FileMode) (bool, error) {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	} else if err != nil {
		return false, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil || mode != anyMode && info.Mode() != mode {
		return false, err
	}
	for there, wanted := make([]byte, 1<<16), make([]byte, 1<<16); ; {
		n, err := io.ReadFull(content, wanted)
		m, errThere := io.ReadFull(file, there)
		if !bytes.Equal(there[:m], wanted[:n]) {
			return false, nil
		}
		if err == nil && errThere == nil {
			continue
		}
		if !ended(err) || !ended(errThere) {
			return false, errors.Join(err, errThere)
		}
		return true, nil
	}
}

func ended(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) }

func reader(content []byte) io.Reader { return bytes.NewReader(content) }
