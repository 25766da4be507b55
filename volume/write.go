package volume

import (
	"os"
	"path/filepath"
)

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
	if err == nil {
		err = file.Chmod(0o640)
	}
	if closeErr := file.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		os.Remove(file.Name())
	}
	return err
}
