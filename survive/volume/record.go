package volume

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"path/filepath"
	"strings"
	"time"
	"unicode/utf8"
)

// Record holds a volume's description, from the kubelet's call of mount.
type Record struct {
	Format         int       `json:"format"` // of what is stored; Encode sets it
	Dir            string    `json:"dir"`    // where the kubelet wants the volume
	PodUID         string    `json:"podUID"`
	PodName        string    `json:"podName,omitempty"`
	PodNamespace   string    `json:"podNamespace,omitempty"`
	ServiceAccount string    `json:"serviceAccount,omitempty"`
	Name           string    `json:"name,omitempty"` // the volume's name in the pod
	Mounted        time.Time `json:"mounted"`

	// Attributes is the result of the driver's check of the options: JSON, whose form is the
	// driver's business, with a format of its own.
	Attributes json.RawMessage `json:"attributes,omitempty"`
}

// Format is the format of the records that this version writes, and the newest that it
// reads. A change that an older version would misunderstand gets the next number.
const Format = 1

// ErrNewer is wrapped by the error for data that a newer version of the driver has stored. A
// version that meets it must not take over from the one that serves.
var ErrNewer = errors.New("it was written by a newer version; upgrade the driver")

// Unmarshal reads JSON that says its format, in a field of into that format points to. The
// error wraps [ErrNewer] if that is newer than newest.
func Unmarshal(data []byte, into any, format *int, newest int) error {
	// After a field of the wrong type, json reads on: the format is known although there is
	// an error.
	err := json.Unmarshal(data, into)
	switch {
	case *format > newest:
		return fmt.Errorf("format %d, newer than %d: %w", *format, newest, ErrNewer)
	case err != nil:
		return errors.New("it is not JSON of the expected form")
	case *format < 1:
		return errors.New("it says no format")
	}
	return nil
}

// ID is the volume's identity.
func (r Record) ID() ID { return NewID(r.Dir) }

// Pod is the pod, NAMESPACE/NAME, for people; "" where whoever has mounted the volume did not say.
func (r Record) Pod() string {
	if r.PodName == "" {
		return ""
	}
	return r.PodNamespace + "/" + r.PodName
}

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

// IsUID tells whether text has the form of a pod's UID: an RFC 4122 UUID, as
// the API server gives, or 32 hexadecimal digits without dashes, as the kubelet
// gives to a static pod (kubernetes v1.34, pkg/kubelet/config/common.go).
func IsUID(text string) bool {
	const digits = "0123456789abcdefABCDEF"
	if len(text) == 36 && text[8] == '-' && text[13] == '-' && text[18] == '-' && text[23] == '-' {
		return strings.Count(text, "-") == 4 && strings.TrimLeft(text, digits+"-") == ""
	}
	return len(text) == 32 && strings.TrimLeft(text, digits) == ""
}

// maxName is the longest name that an object of Kubernetes can have, in bytes
// (RFC 1123, k8s.io/apimachinery, DNS1123SubdomainMaxLength).
const maxName = 253

// Encode returns the record as it is stored.
func (r Record) Encode() ([]byte, error) {
	if err := r.Check(); err != nil {
		return nil, err
	}
	r.Format = Format
	return json.Marshal(r)
}

// Decode reads what Encode returned. The error wraps [ErrNewer] if a newer version did.
func Decode(data []byte) (Record, error) {
	var r Record
	err := Unmarshal(data, &r, &r.Format, Format)
	if err == nil {
		err = r.Check()
	}
	if err != nil {
		return Record{}, err
	}
	return r, nil
}
