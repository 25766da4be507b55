package facts

import (
	"crypto/sha256"
	"encoding/binary"
	"syscall"
	"time"
)

// Fact is one version of a fact.
type Fact struct {
	Name    string
	Size    int64
	Changed time.Time
	version version
}

// version is what the kernel changes when a file is replaced or written to.
type version struct {
	device, inode uint64
	size          int64
	changed       syscall.Timespec // ctime: nobody can set it
}

func versionOf(stat *syscall.Stat_t) version {
	return version{stat.Dev, stat.Ino, stat.Size, stat.Ctim}
}

// idBits are the bits of an id.
const idBits = 60

// ID identifies the name, whatever its content.
func ID(name string) uint64 { return hash([]byte(name)) }

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
