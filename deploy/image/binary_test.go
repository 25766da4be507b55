package main

import (
	"archive/tar"
	"debug/elf"
	"io"
	"os"
	"path/filepath"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// onlyFile takes the binary out of an image, which must have nothing else.
func onlyFile(t *testing.T, image v1.Image) string {
	t.Helper()
	layers, err := image.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("%d layers, want 1 (%v)", len(layers), err)
	}
	layer, err := layers[0].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	defer layer.Close()
	r := tar.NewReader(layer)
	header, err := r.Next()
	if err != nil {
		t.Fatal(err)
	}
	if "/"+header.Name != program || header.Typeflag != tar.TypeReg || header.Mode != 0o755 || header.Uid != 0 || header.Gid != 0 {
		t.Errorf("the image has %+v", header)
	}
	content, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	if header, err := r.Next(); err != io.EOF {
		t.Errorf("the image has more: %+v (%v)", header, err)
	}
	// Its directory names the driver, and this one is nobody's.
	dir := filepath.Join(t.TempDir(), "image.example.com~check")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "check")
	if err := os.WriteFile(path, content, 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// assertStatic requires an executable for the machine that needs no libraries.
func assertStatic(t *testing.T, path string, machine elf.Machine) {
	t.Helper()
	file, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if file.Machine != machine || file.Type != elf.ET_EXEC {
		t.Errorf("is %v %v, want an executable for %v", file.Type, file.Machine, machine)
	}
	for _, segment := range file.Progs {
		if segment.Type == elf.PT_INTERP || segment.Type == elf.PT_DYNAMIC {
			t.Errorf("is linked dynamically: it has a segment %v", segment.Type)
		}
	}
}
