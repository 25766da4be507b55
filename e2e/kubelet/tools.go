//go:build tools

// Package kubelet pins the kubelet that the end-to-end tests run, so that it
// builds from the Go module proxy and from nothing else. It is a module of its
// own: Kubernetes' dependencies are not the driver's. The replace directives in
// go.mod are there because Kubernetes requires its staging modules at v0.0.0.
package kubelet

import _ "k8s.io/kubernetes/cmd/kubelet"
