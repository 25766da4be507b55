package harness

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"runtime"
)

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

// layout is an archive of an OCI image layout with one image of one layer.
func layout(image string, layer []byte) []byte {
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
	config := addBlob(mediaTypeConfig, JSON(map[string]any{
		"architecture": runtime.GOARCH,
		"os":           "linux",
		"config":       map[string]any{"Cmd": []string{"/bin/sleep", "100000"}, "Env": []string{"PATH=/bin:/usr/bin"}},
		// One layer that is not compressed: its digest is its diff id.
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{layerBlob.Digest}},
	}))
	manifest := addBlob(mediaTypeManifest, JSON(map[string]any{
		"schemaVersion": 2,
		"mediaType":     mediaTypeManifest,
		"config":        config,
		"layers":        []descriptor{layerBlob},
	}))
	manifest.Annotations = map[string]string{"io.containerd.image.name": image}
	add("index.json", JSON(map[string]any{
		"schemaVersion": 2,
		"mediaType":     mediaTypeIndex,
		"manifests":     []descriptor{manifest},
	}))
	add("oci-layout", JSON(map[string]any{"imageLayoutVersion": "1.0.0"}))
	w.Close()
	return archive.Bytes()
}

// JSON is for values of our own, which always encode.
func JSON(value any) []byte {
	encoded, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return encoded
}
