// Command overlay writes a file for -overlay, for builds of package builds, and prints its path:
//
//	go build -overlay $(go run ./e2e/builds/overlay lossy noresend) ./cmd/pod-info-fuse
package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"example.com/pod-info-fuse/e2e/builds"
)

func main() {
	path, err := write(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "overlay:", err)
		os.Exit(1)
	}
	fmt.Println(path)
}

func write(args []string) (path string, err error) {
	if len(args) == 0 {
		return "", errors.New("usage: overlay NAME..., or overlay all")
	}
	dir, err := filepath.Abs(filepath.Join("e2e/bin/overlays", strings.Join(args, "-")))
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	return builds.Overlay(dir, strings.Join(args, " "))
}
