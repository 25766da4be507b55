package main

import (
	"archive/tar"
	"io/fs"
	"os"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
)

// writeArchive writes an image layout in which the image has a name, as one file.
func writeArchive(path string, index v1.ImageIndex, name string) error {
	dir, err := os.MkdirTemp("", "image-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	entries, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	// containerd, and what builds on it, reads the first; others read the second.
	err = entries.AppendIndex(index, layout.WithAnnotations(map[string]string{
		"io.containerd.image.name":          name,
		"org.opencontainers.image.ref.name": name,
	}))
	if err != nil {
		return err
	}
	archive, err := os.Create(path)
	if err != nil {
		return err
	}
	defer archive.Close()
	if err := writeTar(archive, os.DirFS(dir)); err != nil {
		return err
	}
	return archive.Close()
}

// writeTar archives a tree in the order of its names, without the times and owners
// that tar.Writer.AddFS would take over.
func writeTar(archive *os.File, tree fs.FS) error {
	w := tar.NewWriter(archive)
	err := fs.WalkDir(tree, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := fs.ReadFile(tree, name)
		if err != nil {
			return err
		}
		header := tar.Header{Typeflag: tar.TypeReg, Name: name, Size: int64(len(content)), Mode: 0o644, ModTime: epoch}
		if err := w.WriteHeader(&header); err != nil {
			return err
		}
		_, err = w.Write(content)
		return err
	})
	if err != nil {
		return err
	}
	return w.Close()
}
