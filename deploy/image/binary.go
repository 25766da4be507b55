package main

import (
	"archive/tar"
	"bytes"
	"io"
	"os"
	"path/filepath"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// epoch is the time of everything in the image, so that no build differs from
// another by its time.
var epoch = time.Unix(0, 0).UTC()

// binaryLayer is a layer that has a program of a directory in its root, and nothing else.
func binaryLayer(dir, program string) (v1.Layer, error) {
	content, err := os.ReadFile(filepath.Join(dir, program))
	if err != nil {
		return nil, err
	}
	var layer bytes.Buffer
	w := tar.NewWriter(&layer)
	header := tar.Header{
		Typeflag: tar.TypeReg,
		Name:     program[1:],
		Size:     int64(len(content)),
		Mode:     0o711, // for everyone to execute, as the daemon does not run as root, and not to read
		ModTime:  epoch,
	}
	if err := w.WriteHeader(&header); err != nil {
		return nil, err
	}
	if _, err := w.Write(content); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(layer.Bytes())), nil }
	return tarball.LayerFromOpener(open, tarball.WithMediaType(types.OCILayer), tarball.WithCompressedCaching)
}
