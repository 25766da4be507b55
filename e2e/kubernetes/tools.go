//go:build tools

// Package kubernetes pins what the end-to-end tests run of Kubernetes, so that it
// builds from the Go module proxy and from nothing else. It is a module of its
// own: Kubernetes' dependencies are not the driver's. The replace directives in
// go.mod are there because Kubernetes requires its staging modules at v0.0.0.
package kubernetes

import (
	_ "k8s.io/kubernetes/cmd/kube-apiserver"
	_ "k8s.io/kubernetes/cmd/kube-controller-manager"
	_ "k8s.io/kubernetes/cmd/kube-scheduler"
	_ "k8s.io/kubernetes/cmd/kubectl"
	_ "k8s.io/kubernetes/cmd/kubelet"
)
