//go:debug containermaxprocs=0
//go:debug updatemaxprocs=0

// Command zip mounts a zip archive on a directory, and survives kill -9, hangs and upgrades.
package main

import (
	"archive/zip"
	"io"
	"io/fs"
	"os"

	"example.com/pod-info-fuse/survive"
	"example.com/pod-info-fuse/survive/command"
	"example.com/pod-info-fuse/survive/iofs"
)

func main() {
	command.Standalone{Driver: driver, About: "zip mounts zip archives.", Source: "ARCHIVE"}.Main()
}

var version = "0.0.0-dev" // go build -ldflags '-X main.version=1.2.3'
var driver = survive.Driver{Program: "zip", Version: version, MaxRead: 128 << 10, FileSystem: func(site survive.Site) survive.FileSystem {
	return iofs.New(site, func() (fs.FS, error) { return open(site.Input) })
}}

// archive is a zip archive, of which files that are not compressed can be read from any offset.
type archive struct {
	*zip.Reader
	file   *os.File
	stored map[string]*zip.File
}

func open(file *os.File) (fs.FS, error) {
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	a := archive{file: file, stored: map[string]*zip.File{}}
	a.Reader, err = zip.NewReader(file, info.Size())
	for i := 0; err == nil && i < len(a.File); i++ {
		if f := a.File[i]; f.Method == zip.Store {
			a.stored[f.Name] = f
		}
	}
	return a, err
}

func (a archive) Open(name string) (fs.File, error) {
	file, err := a.Reader.Open(name)
	f := a.stored[name]
	if err != nil || f == nil {
		return file, err
	}
	offset, err := f.DataOffset()
	return struct {
		fs.File
		io.ReaderAt
	}{file, io.NewSectionReader(a.file, offset, int64(f.UncompressedSize64))}, err
}
