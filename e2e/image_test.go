//go:build e2e

package e2e

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
)

// image is the name of the one image: every container's, and the sandboxes' too,
// whose process only has to stay.
const image = "e2e.example.com/busybox:e2e"

const (
	mediaTypeIndex    = "application/vnd.oci.image.index.v1+json"
	mediaTypeManifest = "application/vnd.oci.image.manifest.v1+json"
	mediaTypeConfig   = "application/vnd.oci.image.config.v1+json"
	mediaTypeLayer    = "application/vnd.oci.image.layer.v1.tar"
)

// A descriptor names a blob of an OCI image layout.
type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int               `json:"size"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// importImage writes an OCI image layout around Debian's static busybox, our
// multi-threaded reader and the driver, whose watch reads again and again, and
// hands it to containerd. Nothing is pulled.
func (n *node) importImage() error {
	layer, err := n.imageLayer()
	if err != nil {
		return err
	}
	archive := filepath.Join(n.dir, "image.tar")
	if err := os.WriteFile(archive, imageLayout(layer), 0o644); err != nil {
		return err
	}
	_, err = n.ctr("images", "import", "--snapshotter", "native", archive)
	return err
}

// imageLayer is the container's file system as a tar archive.
func (n *node) imageLayer() ([]byte, error) {
	var layer bytes.Buffer
	w := tar.NewWriter(&layer)
	for _, dir := range []string{"bin", "etc", "mnt", "proc", "sys", "dev"} {
		w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir + "/", Mode: 0o755})
	}
	for name, source := range map[string]string{
		"bin/busybox":       "/bin/busybox",
		"bin/threads":       n.program("threads"),
		"bin/pod-info-fuse": binary,
	} {
		content, err := os.ReadFile(source)
		if err != nil {
			return nil, fmt.Errorf("%s of the image: %w", name, err)
		}
		w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o755, Size: int64(len(content))})
		w.Write(content)
	}
	for _, applet := range []string{"cat", "id", "ls", "readlink", "sh", "sleep", "stat", "touch"} {
		w.WriteHeader(&tar.Header{Typeflag: tar.TypeSymlink, Name: "bin/" + applet, Linkname: "busybox"})
	}
	return layer.Bytes(), w.Close()
}

// imageLayout is an archive of an OCI image layout with one image of one layer.
func imageLayout(layer []byte) []byte {
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	add := func(name string, content []byte) {
		w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: int64(len(content))})
		w.Write(content)
	}
	addBlob := func(mediaType string, content []byte) descriptor {
		sum := fmt.Sprintf("%x", sha256.Sum256(content))
		add("blobs/sha256/"+sum, content)
		return descriptor{MediaType: mediaType, Digest: "sha256:" + sum, Size: len(content)}
	}

	layerBlob := addBlob(mediaTypeLayer, layer)
	config := addBlob(mediaTypeConfig, toJSON(map[string]any{
		"architecture": runtime.GOARCH,
		"os":           "linux",
		"config":       map[string]any{"Cmd": []string{"/bin/sleep", "100000"}, "Env": []string{"PATH=/bin"}},
		// One layer that is not compressed: its digest is its diff id.
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{layerBlob.Digest}},
	}))
	manifest := addBlob(mediaTypeManifest, toJSON(map[string]any{
		"schemaVersion": 2,
		"mediaType":     mediaTypeManifest,
		"config":        config,
		"layers":        []descriptor{layerBlob},
	}))
	manifest.Annotations = map[string]string{"io.containerd.image.name": image}
	add("index.json", toJSON(map[string]any{
		"schemaVersion": 2,
		"mediaType":     mediaTypeIndex,
		"manifests":     []descriptor{manifest},
	}))
	add("oci-layout", toJSON(map[string]any{"imageLayoutVersion": "1.0.0"}))
	w.Close()
	return archive.Bytes()
}

// toJSON is for values of our own, which always encode.
func toJSON(value any) []byte {
	encoded, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return encoded
}
