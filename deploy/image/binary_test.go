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

// unpack takes the programs out of an image, which must have nothing else, and returns their
// paths.
func unpack(t *testing.T, image v1.Image) (paths []string) {
	t.Helper()
	layers, err := image.Layers()
	if err != nil || len(layers) != len(programs) {
		t.Fatalf("%d layers, want %d (%v)", len(layers), len(programs), err)
	}
	// Its directory names the driver, and this one is nobody's.
	dir := filepath.Join(t.TempDir(), "image.example.com~check")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for i, layer := range layers {
		path := filepath.Join(dir, filepath.Base(programs[i]))
		if err := os.WriteFile(path, onlyFile(t, layer, programs[i]), 0o755); err != nil {
			t.Fatal(err)
		}
		paths = append(paths, path)
	}
	return paths
}

// onlyFile is the content of a layer's one file.
func onlyFile(t *testing.T, compressed v1.Layer, program string) []byte {
	t.Helper()
	layer, err := compressed.Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	defer layer.Close()
	r := tar.NewReader(layer)
	header, err := r.Next()
	if err != nil {
		t.Fatal(err)
	}
	if "/"+header.Name != program || header.Typeflag != tar.TypeReg || header.Mode != 0o711 || header.Uid != 0 || header.Gid != 0 {
		t.Errorf("the layer of %s has %+v", program, header)
	}
	content, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	if header, err := r.Next(); err != io.EOF {
		t.Errorf("the layer of %s has more: %+v (%v)", program, header, err)
	}
	return content
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
