package main

import (
	"os"
	"path/filepath"
	"testing"
)

func TestTheFiltersAreThoseOfThePolicy(t *testing.T) {
	for _, goarch := range architectures {
		want, err := generate(goarch)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join("..", fileName(goarch))
		got, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != string(want) {
			t.Errorf("%s is not what policy.go says; run go generate ./internal/confine", path)
		}
	}
}
