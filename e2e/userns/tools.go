//go:build tools

// Package userns pins the runc that run.sh runs, so that it builds from the Go module
// proxy and from nothing else. It is a module of its own: runc's dependencies are not the
// driver's.
package userns

import _ "github.com/opencontainers/runc"
