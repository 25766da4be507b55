package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// factName is the operator's one fact. It has many equal lines, so that a torn read
// shows.
const factName = "fact"

const factLines = 1000

// configure gives the driver a log, and a directory of facts of its own, which its
// daemon's user can reach.
func (d *driver) configure() (err error) {
	if d.facts, err = os.MkdirTemp(inMemory(), "chaos-facts-"); err != nil {
		return err
	}
	configuration, err := json.Marshal(map[string]string{"factsDir": d.facts, "log": d.log()})
	return errors.Join(err,
		os.Chmod(d.root, 0o711), os.Chmod(d.facts, 0o755),
		os.WriteFile(filepath.Join(filepath.Dir(d.binary), "config.json"), configuration, 0o644),
		d.replaceFact(0))
}

// inMemory is a directory that is not on a disk, if there is one. A disk that the operator
// keeps busy, a thousand times a second, would have the readers wait for it, and not for
// the driver.
func inMemory() string {
	const shared = "/dev/shm"
	var stat unix.Statfs_t
	if unix.Statfs(shared, &stat) != nil || stat.Type != unix.TMPFS_MAGIC {
		return os.TempDir()
	}
	return shared
}

func (d *driver) replaceFact(version int) error {
	hidden := filepath.Join(d.facts, ".new")
	content := strings.Repeat(fmt.Sprintf("%07d\n", version), factLines)
	if err := os.WriteFile(hidden, []byte(content), 0o644); err != nil {
		return err
	}
	return os.Rename(hidden, filepath.Join(d.facts, factName))
}

// operatorOperations replace the fact, a thousand times a second at most.
func (d *driver) operatorOperations() []operation {
	version := 0
	return []operation{{"replace the fact", func() error {
		version++
		time.Sleep(time.Millisecond)
		return d.replaceFact(version)
	}}}
}

// factOperations read the fact in small pieces, all of which must be of one version. One that
// is replaced while it is open is lost when another process serves before the kernel has all
// of it: opening the fact again gives the next version. As a rule the kernel has it all with
// the first read, but on a busy node it asks for each page by itself (fs/fuse/file.c,
// fuse_readahead, where the connection is congested).
func factOperations(volume string) []operation {
	path := filepath.Join(volume, "node."+factName)
	return []operation{{"open, read and close " + filepath.Base(path), func() error {
		got, err := readInPieces(path)
		if errors.Is(err, unix.ESTALE) {
			got, err = readInPieces(path)
		}
		if err != nil {
			return fmt.Errorf("read at %d: %w", len(got), err)
		}
		if len(got) < 8 || got != strings.Repeat(got[:8], factLines) {
			return fmt.Errorf("torn: %d bytes, which begin with %.8q and end with %q", len(got), got, got[max(0, len(got)-8):])
		}
		return nil
	}}}
}

// readInPieces returns what was read before an error, too.
func readInPieces(path string) (string, error) {
	fd, err := open(path, 0)
	if err != nil {
		return "", err
	}
	defer unix.Close(fd)
	var all strings.Builder
	for piece := make([]byte, 97); ; {
		n, err := unix.Read(fd, piece)
		if n <= 0 {
			return all.String(), err
		}
		all.Write(piece[:n])
	}
}
