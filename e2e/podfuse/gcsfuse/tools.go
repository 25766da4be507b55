//go:build tools

// Package gcsfuse pins gcsfuse, and the server of the Cloud Storage protocol that it reads from,
// so that they build from the Go module proxy. It is a module of its own: their dependencies are
// not the driver's. Newer gcsfuse want a newer Go.
package gcsfuse

import (
	_ "github.com/fsouza/fake-gcs-server"
	_ "github.com/googlecloudplatform/gcsfuse/v3"
)
