package main

import (
	"debug/elf"
	"fmt"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// programs are the files in the image, each in a layer. The first is what it executes: the
// driver, and its installer. The second is its CSI plugin, the third the other driver.
var programs = []string{"/pod-info-fuse", "/pod-info-fuse-csi", "/pod-fuse"}

// A platformImage is the image for one architecture.
type platformImage struct {
	v1.Image
	platform v1.Platform
}

func newPlatformImage(dir, version string) (platformImage, error) {
	platform, err := platformOf(dir)
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
			Entrypoint: programs[:1],
			Labels:     description(version),
		},
	})
	if err != nil {
		return platformImage{}, err
	}
	var layers []mutate.Addendum
	for _, program := range programs {
		layer, err := binaryLayer(dir, program)
		if err != nil {
			return platformImage{}, err
		}
		layers = append(layers, mutate.Addendum{
			Layer:   layer,
			History: v1.History{Created: v1.Time{Time: epoch}, Comment: "the static binary " + program},
		})
	}
	image, err := mutate.Append(base, layers...)
	if err != nil {
		return platformImage{}, err
	}
	// What is annotated stays an image: mutate's type is for indexes, too.
	image = mutate.Annotations(image, description(version)).(v1.Image)
	return platformImage{image, platform}, nil
}

// platformOf asks the programs, so that an image cannot have another's.
func platformOf(dir string) (platform v1.Platform, err error) {
	architectures := map[elf.Machine]string{elf.EM_X86_64: "amd64", elf.EM_AARCH64: "arm64"}
	for _, program := range programs {
		file, err := elf.Open(filepath.Join(dir, program))
		if err != nil {
			return v1.Platform{}, err
		}
		file.Close()
		arch, found := architectures[file.Machine]
		switch {
		case !found:
			return v1.Platform{}, fmt.Errorf("%s is for %v, which has no image", program, file.Machine)
		case platform.Architecture != "" && platform.Architecture != arch:
			return v1.Platform{}, fmt.Errorf("%s is for %s, and what is beside it for %s", program, arch, platform.Architecture)
		}
		platform = v1.Platform{OS: "linux", Architecture: arch}
	}
	return platform, nil
}
