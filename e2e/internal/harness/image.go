package harness

import (
	"archive/tar"
	"bytes"
	"fmt"
	"os"
	"path/filepath"
)

// An Image is made around Debian's static busybox, which is its only program but
// for those that the suite adds.
type Image struct {
	Name     string
	Programs map[string]string // name in /bin: path of what to copy
}

// applets are those of busybox's commands that the suites use.
var applets = []string{"cat", "find", "id", "ls", "mkdir", "readlink", "rm", "sh", "sleep", "stat", "touch"}

// ImportImage makes an image and hands it to containerd.
func (n *Node) ImportImage(image Image) error {
	layer, err := image.layer()
	if err != nil {
		return err
	}
	archive := filepath.Join(n.Dir, "image.tar")
	if err := os.WriteFile(archive, layout(image.Name, layer), 0o644); err != nil {
		return err
	}
	return n.ImportImages(archive)
}

// layer is the container's file system as a tar archive.
func (image Image) layer() ([]byte, error) {
	var layer bytes.Buffer
	w := tar.NewWriter(&layer)
	for _, dir := range []string{"bin", "etc", "mnt", "proc", "sys", "dev"} {
		w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir + "/", Mode: 0o755})
	}
	add := func(name, source string) error {
		content, err := os.ReadFile(source)
		if err != nil {
			return fmt.Errorf("%s of the image: %w", name, err)
		}
		w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "bin/" + name, Mode: 0o755, Size: int64(len(content))})
		w.Write(content)
		return nil
	}
	if err := add("busybox", "/bin/busybox"); err != nil {
		return nil, err
	}
	for name, source := range image.Programs {
		if err := add(name, source); err != nil {
			return nil, err
		}
	}
	for _, applet := range applets {
		w.WriteHeader(&tar.Header{Typeflag: tar.TypeSymlink, Name: "bin/" + applet, Linkname: "busybox"})
	}
	return layer.Bytes(), w.Close()
}
