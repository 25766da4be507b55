// Package harness is what the suites with a kubelet share: servers with their
// logs, a containerd with an image that comes from no registry, and the search
// for what a run leaves behind.
package harness
