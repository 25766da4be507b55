package iofs_test

import (
	"archive/zip"
	"io/fs"

	"example.com/pod-info-fuse/survive"
	"example.com/pod-info-fuse/survive/command"
	"example.com/pod-info-fuse/survive/iofs"
)

// A program that mounts zip archives: see examples/zip.
func Example() {
	command.Standalone{
		Driver: survive.Driver{
			Program: "zip",
			Version: "1.0.0",
			FileSystem: func(site survive.Site) survive.FileSystem {
				return iofs.New(site, func() (fs.FS, error) {
					info, err := site.Input.Stat()
					if err != nil {
						return nil, err
					}
					return zip.NewReader(site.Input, info.Size())
				})
			},
		},
		About:  "zip mounts zip archives.",
		Source: "ARCHIVE",
	}.Main()
}
