package main

import (
	"bytes"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"slices"
)

// The tree is what every program serves: files whose names tell their contents, so that a
// reader needs nothing else to know them.
const (
	treeFiles = 24
	treeDirs  = 4
	// scratch is the directory for operations that write.
	scratch = "scratch"
)

// sizes are of the files, in bytes: from less than a page to more than a read-ahead.
var sizes = []int{17, 4096, 5000, 70_000, 300_000}

func fileName(i int) string { return fmt.Sprintf("file-%02d", i) }
func linkName(i int) string { return fmt.Sprintf("link-%02d", i) }
func dirName(i int) string  { return fmt.Sprintf("dir-%d", i) }

// innerName is the file in a directory of the tree.
func innerName(i int) string { return filepath.Join(dirName(i), "inner", "file") }

// names are those in the root of the tree.
func treeNames(links bool) (all []string) {
	for i := range treeFiles {
		all = append(all, fileName(i))
		if links {
			all = append(all, linkName(i))
		}
	}
	for i := range treeDirs {
		all = append(all, dirName(i))
	}
	all = append(all, scratch)
	slices.Sort(all)
	return all
}

// content returns the content of a file of the tree.
func content(name string) []byte {
	line := fmt.Appendf(nil, "%s %016x\n", name, hashOf(name))
	size := sizeOf(name)
	return bytes.Repeat(line, size/len(line)+1)[:size]
}

func sizeOf(name string) int { return sizes[hashOf(name)%uint64(len(sizes))] }

func hashOf(name string) uint64 {
	hash := fnv.New64a()
	hash.Write([]byte(name))
	return hash.Sum64()
}

// smallFile is one of the files that are as small as any.
func smallFile() string {
	for i := range treeFiles {
		if name := fileName(i); sizeOf(name) == slices.Min(sizes) {
			return name
		}
	}
	panic("there is none")
}

// writeTree makes the tree in a directory, for programs that run as a user.
func writeTree(root string, links bool, uid int) error {
	for i := range treeDirs {
		if err := os.MkdirAll(filepath.Join(root, filepath.Dir(innerName(i))), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(root, innerName(i)), content(innerName(i)), 0o644); err != nil {
			return err
		}
	}
	for i := range treeFiles {
		if err := os.WriteFile(filepath.Join(root, fileName(i)), content(fileName(i)), 0o644); err != nil {
			return err
		}
		if !links {
			continue
		}
		if err := os.Symlink(fileName(i), filepath.Join(root, linkName(i))); err != nil {
			return err
		}
	}
	// A file: a program that keeps no directories would lose an empty one.
	if err := os.Mkdir(filepath.Join(root, scratch), 0o777); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(root, scratch, "keep"), nil, 0o644); err != nil {
		return err
	}
	return chownTree(root, uid)
}

func chownTree(root string, uid int) error {
	return filepath.Walk(root, func(path string, _ os.FileInfo, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(path, uid, uid)
	})
}
