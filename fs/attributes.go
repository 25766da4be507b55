package fs

import (
	"encoding/json"
	"fmt"

	"example.com/pod-info-fuse/survive/volume"
)

// Attributes are this file system's part of a volume's record.
type Attributes struct {
	Format int      `json:"format"`           // Encode sets it
	Facts  []string `json:"facts,omitempty"`  // names of files that were asked for, in any order
	BootID string   `json:"bootID,omitempty"` // of the node, if it was asked for
}

// attributesFormat is the format of the attributes that this version writes, and the newest
// that it reads.
const attributesFormat = 1

// Encode returns the attributes as a record has them: nothing, if nothing was asked for.
func (a Attributes) Encode() (json.RawMessage, error) {
	if len(a.Facts) == 0 {
		return nil, nil
	}
	a.Format = attributesFormat
	return json.Marshal(a)
}

// AttributesOf returns the attributes of a volume. The error wraps [volume.ErrNewer] if a newer
// version wrote them.
func AttributesOf(record volume.Record) (a Attributes, err error) {
	if len(record.Attributes) == 0 {
		return a, nil
	}
	err = volume.Unmarshal(record.Attributes, &a, &a.Format, attributesFormat)
	if err != nil {
		return Attributes{}, fmt.Errorf("attributes of the volume on %q: %w", record.Dir, err)
	}
	return a, nil
}

// CheckRecord returns an error that wraps [volume.ErrNewer] if a volume has a file or an
// attribute that this version does not know.
func CheckRecord(record volume.Record) error {
	attributes, err := AttributesOf(record)
	for _, name := range attributes.Facts {
		if _, known := kindOf(name); !known {
			return fmt.Errorf("the volume on %q has a file %q: %w", record.Dir, name, volume.ErrNewer)
		}
	}
	return err
}
