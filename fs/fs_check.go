package fs

import "github.com/hanwen/go-fuse/v2/fuse"

var _ fuse.RawFileSystem = (*FS)(nil)
