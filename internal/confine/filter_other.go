//go:build !amd64 && !arm64

package confine

import "golang.org/x/sys/unix"

// There are no tables of system calls for this architecture in the library.
var filter, filterWithSockets, filterForMounting []unix.SockFilter
