package main

import (
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// newIndex is the image for all architectures, of which a runtime takes its own.
func newIndex(images []platformImage, version string) v1.ImageIndex {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, image := range images {
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add:        image.Image,
			Descriptor: v1.Descriptor{Platform: &image.platform},
		})
	}
	return mutate.Annotations(index, description(version)).(v1.ImageIndex)
}
