// Package facts reads the facts that the operator of a node tells its pods: each
// file of a directory is one, and pods read it as node.NAME in their volumes.
//
// The directory is root's, but people and programs of all kinds write to it, so it may have
// anything in it. Entries that cannot be facts are left out, with a reason: see [Dir.Scan].
//
// A fact is read as a whole, and each version of it has an identity. Package fs makes that
// the inode of the file, so that a reader gets all pieces of one version, although another
// has replaced it meanwhile.
//
// The directory stays open, and facts in it may come and go. Each look begins anew.
package facts

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"time"
)

// Fact is one version of a fact.
type Fact struct {
	Name    string
	ID      uint64 // of the name, whatever the content
	Size    int64
	Changed time.Time
	version version
}

// version has the attributes that the kernel changes when a file is replaced or written to.
type version struct {
	device, inode uint64
	size          int64
	changed       syscall.Timespec // ctime: nobody can set it
}

func versionOf(stat *syscall.Stat_t) version {
	return version{stat.Dev, stat.Ino, stat.Size, stat.Ctim}
}

// idBits are the bits of an id: as many as those of a volume's.
const idBits = 56

// VersionID identifies the name and this version of its content. Every process
// finds the same one.
func (f Fact) VersionID() uint64 {
	text := append(make([]byte, 0, 128), f.Name...)
	text = append(text, 0)
	for _, number := range [...]uint64{
		f.version.device, f.version.inode, uint64(f.version.size),
		uint64(f.version.changed.Sec), uint64(f.version.changed.Nsec),
	} {
		text = binary.LittleEndian.AppendUint64(text, number)
	}
	return hash(text)
}

func hash(text []byte) uint64 {
	sum := sha256.Sum256(text)
	return binary.BigEndian.Uint64(sum[:]) >> (64 - idBits)
}

// MaxName is the longest name of a fact, in bytes.
const MaxName = 64

// Check says why a file of a name and a size, in bytes, cannot be a fact. Allowed names need no
// quotes in a shell or a URL.
func Check(name string, size int64) error {
	switch {
	case len(name) > MaxName:
		return fmt.Errorf("its name has more than %d characters", MaxName)
	case name == "":
		return errors.New("it has no name")
	case strings.ContainsAny(name[:1], "._-"), strings.TrimLeft(name, "abcdefghijklmnopqrstuvwxyz0123456789._-") != "":
		return errors.New("its name is not plain: [a-z0-9][a-z0-9._-]*")
	case size > MaxSize:
		return fmt.Errorf("it has %d bytes, more than %d", size, MaxSize)
	}
	return nil
}
