package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

func TestTheFiltersAreThoseOfThePolicy(t *testing.T) {
	files, err := generate()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join("..", "filters")
	for name, want := range files {
		got, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s is not what policy.go says; run go generate ./internal/confine", name)
		}
	}
	there, err := os.ReadDir(dir)
	if err != nil || len(there) != len(files) {
		t.Errorf("there are %d files, and the policy has %d (%v)", len(there), len(files), err)
	}
}
