// Package csisanity runs the CSI project's own test suite against the node plugin: the process
// itself, on its socket, with volumes that are really mounted. It is a module of its own, because
// nothing else needs what the suite needs. "make csi-sanity" builds the programs that it runs.
package csisanity
