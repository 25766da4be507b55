package main

import (
	"debug/elf"
	"fmt"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// program is the path of the one file in the image.
const program = "/pod-info-fuse"

// A platformImage is the image for one architecture.
type platformImage struct {
	v1.Image
	platform v1.Platform
}

func newPlatformImage(binary, version string) (platformImage, error) {
	platform, err := platformOf(binary)
	if err != nil {
		return platformImage{}, err
	}
	layer, err := binaryLayer(binary)
	if err != nil {
		return platformImage{}, err
	}
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	base, err = mutate.ConfigFile(base, &v1.ConfigFile{
		OS:           platform.OS,
		Architecture: platform.Architecture,
		Created:      v1.Time{Time: epoch},
		RootFS:       v1.RootFS{Type: "layers"},
		Config: v1.Config{
			User:       "0:0",
			Entrypoint: []string{program},
			Labels:     description(version),
		},
	})
	if err != nil {
		return platformImage{}, err
	}
	image, err := mutate.Append(base, mutate.Addendum{
		Layer:   layer,
		History: v1.History{Created: v1.Time{Time: epoch}, Comment: "the static binary " + program},
	})
	if err != nil {
		return platformImage{}, err
	}
	// What is annotated stays an image: mutate's type is for indexes, too.
	image = mutate.Annotations(image, description(version)).(v1.Image)
	return platformImage{image, platform}, nil
}

// platformOf asks the binary, so that an image cannot have another's.
func platformOf(binary string) (v1.Platform, error) {
	file, err := elf.Open(binary)
	if err != nil {
		return v1.Platform{}, err
	}
	defer file.Close()
	architectures := map[elf.Machine]string{elf.EM_X86_64: "amd64", elf.EM_AARCH64: "arm64"}
	arch, found := architectures[file.Machine]
	if !found {
		return v1.Platform{}, fmt.Errorf("is for %v, which has no image", file.Machine)
	}
	return v1.Platform{OS: "linux", Architecture: arch}, nil
}
