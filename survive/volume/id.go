package volume

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"

	"example.com/pod-info-fuse/internal/mount"
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

// CSIPlugin is PLUGIN in the directories of volumes of all CSI drivers.
const CSIPlugin = "kubernetes.io~csi"

// SplitDir splits a directory that the kubelet made for a volume,
// ROOT/pods/UID/volumes/PLUGIN/NAME (kubernetes v1.34,
// pkg/kubelet/kubelet_getters.go, getPodVolumeDir), into ROOT/pods and the rest,
// which begins with the pod's UID. No pod's author has a say in it. For a CSI driver, that is
// the parent of the volume's directory, NAME/mount (pkg/volume/csi/csi_plugin.go,
// GetCSIMounterPath). It reports false for a directory of another form.
func SplitDir(dir string) (pods, rest string, ok bool) {
	parts := strings.Split(dir, "/")
	at := len(parts) - len([]string{"pods", "UID", "volumes", "PLUGIN", "NAME"})
	if at > 1 && parts[at+1] == "volumes" && parts[at+2] == CSIPlugin {
		at--
	}
	if at < 1 || parts[at] != "pods" || parts[at+2] != "volumes" {
		return "", "", false
	}
	return strings.Join(parts[:at+1], "/"), strings.Join(parts[at+1:], "/"), true
}

// CleanDir returns a directory in the form that its volume's id is made of: absolute, and without
// links on the way to the directory of the kubelet's pods. The kubelet's root may be a link. But
// mountinfo has no links, and is all that tells of a volume whose record is lost.
func CleanDir(dir string) (string, error) {
	if !filepath.IsAbs(dir) {
		return "", fmt.Errorf("directory %q is not an absolute path", dir)
	}
	clean := filepath.Clean(dir)
	if clean == "/" {
		return "", errors.New("directory / cannot be a volume")
	}
	if strings.TrimRight(dir, "/") != clean {
		return "", fmt.Errorf("directory %q is not in its shortest form, %q", dir, clean)
	}
	if pods, rest, ok := SplitDir(clean); ok {
		real, err := mount.Real(pods)
		if err == nil && filepath.Base(real) == filepath.Base(pods) {
			return filepath.Join(real, rest), nil
		}
	}
	return clean, nil
}

// Beside is the directory of the volume of another name in the same pod, by the same door.
func Beside(dir, name string) string {
	pods, rest, ok := SplitDir(dir)
	if !ok {
		return filepath.Join(filepath.Dir(dir), name)
	}
	parts := strings.Split(rest, "/") // UID/volumes/PLUGIN/NAME, and for CSI, /mount
	parts[3] = name
	return filepath.Join(pods, filepath.Join(parts...))
}

// OpenDir opens the directory of a volume. The kubelet's root may be a link, but
// not what the kubelet makes in it.
func OpenDir(dir string) (*mount.Point, error) {
	pods, rest, ok := SplitDir(filepath.Clean(dir))
	if !ok {
		return mount.Open(dir)
	}
	parent, err := mount.OpenBelow(pods, filepath.Dir(rest))
	if err != nil {
		return nil, err
	}
	defer parent.Close()
	return parent.Open(filepath.Base(rest))
}

// MakeDir makes the directory of a volume in one that is there, and reports whether it did:
// false, if something of that name is there already.
func MakeDir(dir string) (made bool, err error) {
	parent, err := OpenDir(filepath.Dir(dir))
	if err != nil {
		return false, err
	}
	defer parent.Close()
	return parent.MakeDir(filepath.Base(dir))
}

// RemoveDir removes the directory of a volume, on which nothing is mounted any more. One that
// is not there is no error.
func RemoveDir(dir string) error {
	parent, err := OpenDir(filepath.Dir(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	defer parent.Close()
	return parent.RemoveDir(filepath.Base(dir))
}
