package volume

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"strconv"
)

// ID identifies a volume on its node: 60 bits of a hash of its mount
// directory, so that a call-out that is told the directory knows the volume
// without asking anybody. It is never 0.
//
// The hash is cryptographic because pod authors choose a part of the
// directory's name; a pair that collides all the same is refused by the second
// mount.
type ID uint64

const idBits = 60

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

// String is the volume's name below the node mount: 15 hexadecimal digits.
func (id ID) String() string { return fmt.Sprintf("%015x", uint64(id)) }
