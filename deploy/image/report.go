package main

import (
	"fmt"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// report prints what a user pins: the digests, of the image for all architectures
// first, and how much a node downloads.
func report(name string, index v1.ImageIndex, images []platformImage) error {
	digest, err := index.Digest()
	if err != nil {
		return err
	}
	fmt.Printf("%s\n  all          %s\n", name, digest)
	for _, image := range images {
		digest, err := image.Digest()
		if err != nil {
			return err
		}
		size, err := downloadSize(image)
		if err != nil {
			return err
		}
		fmt.Printf("  %-12s %s  %.1f MB\n", image.platform.String(), digest, float64(size)/1e6)
	}
	return nil
}

// downloadSize is the size of the layers, as they are stored.
func downloadSize(image v1.Image) (total int64, err error) {
	layers, err := image.Layers()
	if err != nil {
		return 0, err
	}
	for _, layer := range layers {
		size, err := layer.Size()
		if err != nil {
			return 0, err
		}
		total += size
	}
	return total, nil
}
