// Command sbom writes what programs consist of, as a CycloneDX document:
//
//	sbom --version VERSION --time SECONDS --out FILE DIR...
//
// Each DIR has programs for one platform. What a program consists of is what the linker has written
// into it (debug/buildinfo): nothing is said of modules that are required and not linked. The
// document depends on the arguments and the programs alone.
package main

import (
	"cmp"
	"crypto/sha256"
	"debug/buildinfo"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

func run() error {
	version := flag.String("version", "", "version of the programs")
	seconds := flag.Int64("time", 0, "time of the release, in seconds since 1970")
	out := flag.String("out", "", "the document to write")
	flag.Parse()
	if *version == "" || *out == "" || flag.NArg() == 0 {
		return errors.New("needs --version, --out, and directories")
	}
	b := bill{version: *version, modules: map[string]cdx.Component{}}
	for _, dir := range flag.Args() {
		programs, err := filepath.Glob(filepath.Join(dir, "*"))
		if err != nil || len(programs) == 0 {
			return fmt.Errorf("%s has no programs", dir)
		}
		for _, path := range programs {
			if err := b.add(path); err != nil {
				return err
			}
		}
	}
	document := b.document(time.Unix(*seconds, 0).UTC())
	var text strings.Builder
	if err := cdx.NewBOMEncoder(&text, cdx.BOMFileFormatJSON).SetPretty(true).Encode(document); err != nil {
		return err
	}
	return os.WriteFile(*out, []byte(text.String()), 0o644)
}

// bill is what is known of the programs so far.
type bill struct {
	version  string
	programs []cdx.Component
	needs    []cdx.Dependency         // of the programs
	modules  map[string]cdx.Component // by their package URLs
}

func (b *bill) add(path string) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return fmt.Errorf("%s: %w; is it a program that Go has built?", path, err)
	}
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	platform := settings["GOOS"] + "/" + settings["GOARCH"]
	name := filepath.Base(path)
	program := cdx.Component{
		BOMRef:     name + " " + platform,
		Type:       cdx.ComponentTypeApplication,
		Name:       name,
		Version:    b.version,
		Hashes:     &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: fmt.Sprintf("%x", sha256.Sum256(content))}},
		Licenses:   apache,
		Properties: &[]cdx.Property{{Name: "platform", Value: platform}},
	}
	// The standard library is one as every other, under the name that databases of
	// vulnerabilities know.
	needs := []string{b.module("stdlib", strings.TrimPrefix(info.GoVersion, "go"))}
	for _, m := range info.Deps {
		m = cmp.Or[*debug.Module](m.Replace, m)
		needs = append(needs, b.module(m.Path, m.Version))
	}
	slices.Sort(needs)
	b.programs = append(b.programs, program)
	b.needs = append(b.needs, cdx.Dependency{Ref: program.BOMRef, Dependencies: &needs})
	return nil
}

// module is the package URL of a module, which is in the bill from now on.
func (b *bill) module(path, version string) (url string) {
	url = "pkg:golang/" + path + "@" + version
	b.modules[url] = cdx.Component{BOMRef: url, Type: cdx.ComponentTypeLibrary, Name: path, Version: version, PackageURL: url}
	return url
}

var apache = &cdx.Licenses{{License: &cdx.License{ID: "Apache-2.0"}}}

func (b *bill) document(at time.Time) *cdx.BOM {
	all := slices.Clone(b.programs)
	for _, url := range slices.Sorted(maps.Keys(b.modules)) {
		all = append(all, b.modules[url])
	}
	release := cdx.Component{BOMRef: "release", Type: cdx.ComponentTypeApplication, Name: "pod-info-fuse", Version: b.version, Licenses: apache}
	var programs []string
	for _, program := range b.programs {
		programs = append(programs, program.BOMRef)
	}
	needs := append([]cdx.Dependency{{Ref: release.BOMRef, Dependencies: &programs}}, b.needs...)

	document := cdx.NewBOM()
	document.Metadata = &cdx.Metadata{Timestamp: at.Format(time.RFC3339), Component: &release}
	document.Components = &all
	document.Dependencies = &needs
	document.SerialNumber = b.serial()
	return document
}

// serial identifies the document by the programs in it: a random number would differ from build to
// build. Its form is that of a UUID of version 8, whose bits are its maker's (RFC 9562, 5.8).
func (b *bill) serial() string {
	hash := sha256.New()
	for _, program := range b.programs {
		fmt.Fprintln(hash, program.BOMRef, program.Version, *program.Hashes)
	}
	id := hash.Sum(nil)[:16]
	id[6] = id[6]&0x0f | 0x80
	id[8] = id[8]&0x3f | 0x80
	return fmt.Sprintf("urn:uuid:%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:])
}
