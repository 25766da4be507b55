package volume

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"strconv"
)

// ID identifies a volume on its node: 56 bits of a hash of its mount
// directory, so that a call-out knows the volume from the directory alone. It is never 0.
//
// The hash is cryptographic because pod authors choose a part of the
// directory's name; if two collide all the same, the second mount fails.
type ID uint64

const idBits = 56

// NewID returns the ID of the volume mounted on dir.
func NewID(dir string) ID {
	sum := sha256.Sum256([]byte(dir))
	id := ID(binary.BigEndian.Uint64(sum[:]) >> (64 - idBits))
	return max(id, 1)
}

// ParseID reads what String writes, and nothing else.
func ParseID(text string) (ID, error) {
	value, err := strconv.ParseUint(text, 16, idBits)
	if id := ID(value); err == nil && id != 0 && id.String() == text {
		return id, nil
	}
	return 0, fmt.Errorf("%q is not a volume's id", text)
}

// String is the volume's name below the node mount: 14 hexadecimal digits.
func (id ID) String() string { return fmt.Sprintf("%014x", uint64(id)) }
