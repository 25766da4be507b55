// Command image puts the programs, for each architecture, into an image:
//
//	image --name NAME --version VERSION --out FILE DIR...
//
// Each DIR has the programs for one architecture. FILE becomes an archive of an OCI image layout,
// which container runtimes import. It depends on the arguments and the programs alone, so that who
// builds the same source gets the same digests. No container runtime is needed, and no registry.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func run() error {
	name := flag.String("name", "", "name of the image, without a tag")
	version := flag.String("version", "", "version of the binaries, and tag of the image")
	out := flag.String("out", "", "the archive to write")
	flag.Parse()
	if *name == "" || *version == "" || *out == "" || flag.NArg() == 0 {
		return errors.New("needs --name, --version, --out, and directories")
	}
	var images []platformImage
	for _, dir := range flag.Args() {
		image, err := newPlatformImage(dir, *version)
		if err != nil {
			return fmt.Errorf("image of %s: %w", dir, err)
		}
		images = append(images, image)
	}
	index := newIndex(images, *version)
	if err := writeArchive(*out, index, *name+":"+*version); err != nil {
		return fmt.Errorf("writing %s: %w", *out, err)
	}
	return report(*name+":"+*version, index, images)
}
