//go:build tools

// Package containerd pins the containerd that runs pods in user namespaces, which Debian's is
// too old for, so that it builds from the Go module proxy and from nothing else. It is a module of
// its own: containerd's dependencies are not the driver's.
package containerd

import (
	_ "github.com/containerd/containerd/v2/cmd/containerd"
	_ "github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2"
	_ "github.com/containerd/containerd/v2/cmd/ctr"
)
