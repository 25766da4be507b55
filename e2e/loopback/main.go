// Loopback is a FUSE program that shows a directory, with go-fuse's own file system and
// its own way to mount: by fusermount, or by a descriptor that it finds in /dev/fd/N.
//
//	loopback DIR MOUNTPOINT
package main

import (
	"fmt"
	"os"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
)

func main() {
	if err := serve(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "loopback:", err)
		os.Exit(1)
	}
}

func serve(dir, mountPoint string) error {
	root, err := fs.NewLoopbackRoot(dir)
	if err != nil {
		return err
	}
	server, err := fs.Mount(mountPoint, root, &fs.Options{MountOptions: fuse.MountOptions{AllowOther: true, FsName: "loopback"}})
	if err != nil {
		return err
	}
	server.Wait()
	return nil
}
