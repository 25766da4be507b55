package main

import (
	"os"
	"path/filepath"
)

// source is a file that can be read again, also when the root directory has
// changed, and as its directory has it by then: a kubelet replaces the files of a
// ConfigMap by changing a link.
type source struct {
	directory *os.Root // nil: there is no file
	name      string
}

// openSource finds a file, "" for none.
func openSource(path string) (source, error) {
	if path == "" {
		return source{}, nil
	}
	directory, err := os.OpenRoot(filepath.Dir(path))
	return source{directory, filepath.Base(path)}, err
}

// read returns the content, nil if there is no file.
func (s source) read() ([]byte, error) {
	if s.directory == nil {
		return nil, nil
	}
	return s.directory.ReadFile(s.name)
}
