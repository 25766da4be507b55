package harness

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// An Image is made around Debian's static busybox, which is its only program but
// for those that the suite adds.
type Image struct {
	Name     string
	Programs map[string]string // name in /bin: path of what to copy
	Files    []string          // of this machine: it has them at the same paths, with the libraries that they need
	Users    string            // /etc/passwd
}

// applets are those of busybox's commands that the suites and the documents use.
var applets = []string{
	"cat", "df", "find", "grep", "head", "id", "killall", "ls", "mkdir", "ps", "readlink", "rm", "sh", "sleep", "stat", "tail", "touch",
}

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
	w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: "tmp/", Mode: 0o1777})
	add := func(name, source string) error {
		content, err := os.ReadFile(source)
		if err != nil {
			return fmt.Errorf("%s of the image: %w", name, err)
		}
		w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o755, Size: int64(len(content))})
		w.Write(content)
		return nil
	}
	if err := add("bin/busybox", "/bin/busybox"); err != nil {
		return nil, err
	}
	for name, source := range image.Programs {
		if err := add("bin/"+name, source); err != nil {
			return nil, err
		}
	}
	files, err := withLibraries(image.Files)
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		name := strings.TrimPrefix(file, "/")
		if target, err := os.Readlink(file); err == nil && slices.Contains(image.Files, file) {
			w.WriteHeader(&tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: target})
		} else if err := add(name, file); err != nil {
			return nil, err
		}
	}
	if image.Users != "" {
		w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "etc/passwd", Mode: 0o644, Size: int64(len(image.Users))})
		io.WriteString(w, image.Users)
	}
	for _, applet := range applets {
		w.WriteHeader(&tar.Header{Typeflag: tar.TypeSymlink, Name: "bin/" + applet, Linkname: "busybox"})
	}
	return layer.Bytes(), w.Close()
}

// withLibraries adds to programs the libraries that they are linked to.
func withLibraries(programs []string) ([]string, error) {
	files := slices.Clone(programs)
	for _, program := range programs {
		out, err := exec.Command("ldd", program).Output()
		if err != nil {
			return nil, fmt.Errorf("ldd %s: %w: %s", program, err, out)
		}
		for _, field := range strings.Fields(string(out)) {
			if strings.HasPrefix(field, "/") && !slices.Contains(files, field) {
				files = append(files, field)
			}
		}
	}
	return files, nil
}
