package volume

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"path/filepath"
	"time"
	"unicode/utf8"
)

// Record is what the node knows of a volume: what the kubelet said when it
// called mount.
type Record struct {
	Dir            string    `json:"dir"` // where the kubelet wants the volume
	PodUID         string    `json:"podUID"`
	PodName        string    `json:"podName,omitempty"`
	PodNamespace   string    `json:"podNamespace,omitempty"`
	ServiceAccount string    `json:"serviceAccount,omitempty"`
	Name           string    `json:"name,omitempty"`   // the volume's name in the pod
	Facts          []string  `json:"facts,omitempty"`  // that the volume has beside the files of every volume
	BootID         string    `json:"bootID,omitempty"` // of the node, for FactBootID
	Mounted        time.Time `json:"mounted"`
}

// ID is the volume's identity.
func (r Record) ID() ID { return NewID(r.Dir) }

// Generation tells volumes apart that followed each other on one directory.
// It depends on the pod alone, so that a volume that is mounted again for the
// same pod is the same one. The kernel keeps 32 bits of it
// (fs/fuse/inode.c, fuse_init_inode).
func (r Record) Generation() uint64 {
	return uint64(crc32.ChecksumIEEE([]byte(r.PodUID)))
}

// Check returns an error that names the first field that cannot be right.
func (r Record) Check() error {
	switch {
	case !filepath.IsAbs(r.Dir) || filepath.Clean(r.Dir) != r.Dir:
		return fmt.Errorf("directory %q is not an absolute path in its shortest form", r.Dir)
	case !utf8.ValidString(r.Dir):
		return fmt.Errorf("directory %q is not UTF-8", r.Dir)
	case !IsUID(r.PodUID):
		return fmt.Errorf("%.40q is not a pod's UID", r.PodUID)
	}
	// The daemon reads and checks the record at every request: no map here.
	for _, field := range [...]struct{ what, name string }{
		{"pod's name", r.PodName}, {"pod's namespace", r.PodNamespace}, {"service account", r.ServiceAccount}, {"volume's name", r.Name},
	} {
		if len(field.name) > maxName {
			return fmt.Errorf("the %s has %d bytes; Kubernetes allows %d", field.what, len(field.name), maxName)
		}
	}
	return nil
}

// maxName is the longest name that an object of Kubernetes can have, in bytes
// (RFC 1123, k8s.io/apimachinery, DNS1123SubdomainMaxLength).
const maxName = 253

// Encode returns the record as it is stored.
func (r Record) Encode() ([]byte, error) {
	if err := r.Check(); err != nil {
		return nil, err
	}
	return json.MarshalIndent(r, "", "  ")
}

// Decode reads what Encode returned.
func Decode(data []byte) (Record, error) {
	var r Record
	if err := json.Unmarshal(data, &r); err != nil {
		return Record{}, errors.New("record is not JSON of the expected form")
	}
	if err := r.Check(); err != nil {
		return Record{}, err
	}
	return r, nil
}
