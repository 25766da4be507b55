package main

import (
	"os"
	"os/exec"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// The tests look at what `make image` has written, the way a container runtime
// does; `make image-check` builds it before, and says of which version it is.
var (
	archive = "../../bin/image.tar"
	version = os.Getenv("VERSION")
)

// openArchive unpacks the archive.
func openArchive(t *testing.T) v1.ImageIndex {
	t.Helper()
	if version == "" {
		t.Fatal("VERSION is not set; make image-check does")
	}
	dir := t.TempDir()
	if out, err := exec.Command("tar", "-xf", archive, "-C", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	entries, err := layout.ImageIndexFromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	return entries
}

// platformImages are the archive's images by their platform.
func platformImages(t *testing.T) map[string]v1.Image {
	t.Helper()
	entries := openArchive(t)
	index, err := entries.ImageIndex(indexManifest(t, entries).Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(index); err != nil {
		t.Errorf("the index does not fit what it names: %v", err)
	}
	images := make(map[string]v1.Image)
	for _, manifest := range indexManifest(t, index).Manifests {
		image, err := index.Image(manifest.Digest)
		if err != nil {
			t.Fatal(err)
		}
		images[manifest.Platform.String()] = image
	}
	return images
}

func indexManifest(t *testing.T, index v1.ImageIndex) *v1.IndexManifest {
	t.Helper()
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	return manifest
}
