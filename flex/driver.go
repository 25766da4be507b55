// Package flex speaks the FlexVolume call-out protocol, the driver's side of
// it: the kubelet executes a binary with the name of a call-out and its
// arguments, and the binary prints one JSON object.
//
// A driver implements [Driver], and its main function calls [Main]. A driver that serves a
// FUSE file system is better off with package survive; see docs/dev/second-driver.md. Call-outs
// of drivers that attach a device or let it grow are not implemented.
//
// The traps of the protocol, all of them handled here
// (kubernetes v1.34, pkg/volume/flexvolume/driver-call.go):
//
//   - The kubelet reads stdout and stderr as one stream, which must be exactly
//     one JSON object. Main puts /dev/null in the place of both before it calls
//     the driver, so that a stray line of a library cannot spoil the answer.
//   - The kubelet reads that stream until every process that holds it has
//     closed it. A driver that leaves a process behind must give it other
//     descriptors than 1 and 2; with Main, the ones it inherits are /dev/null.
//   - A capability that the answer to init does not mention counts as true
//     (but for SupportsMetrics).
//     All five are always in the answer; see [Capabilities].
//   - "Not supported" makes the kubelet forget the call-out until the driver is
//     probed again, and do something of its own in its place. Only a call-out
//     that the driver does not implement is answered so.
//   - When the process exits non-zero, the kubelet logs all its arguments,
//     secrets among them. A process that has printed an answer exits 0, also
//     after a failure.
//   - The options of mount are merged by the kubelet with those of the pod's
//     author, the author's last. Look keys up exactly, as [Options] does, and
//     never decode them into a struct: Go's decoder folds case, and U+017F onto
//     "s", so that "kuberneteſ.io/pod.uid" would override "kubernetes.io/pod.uid".
package flex

// Driver has the call-outs that every FlexVolume driver must implement. Errors become
// "Failure" answers, and the user reads their text in the pod's events.
type Driver interface {
	// Init is called when the kubelet finds the driver, and again whenever
	// something changes in the driver's directory. The kube-controller-manager
	// calls it as well, in a container that has nothing of the node.
	Init() (Capabilities, error)

	// Mount makes the volume appear in dir, an existing directory.
	Mount(dir string, options Options) error

	// Unmount undoes Mount. The kubelet removes dir afterwards with rmdir(2).
	Unmount(dir string) error
}

// Capabilities tell the kubelet which of its own steps the driver's volumes
// need. Each is printed, because the kubelet takes an absent one for true
// (SupportsMetrics excepted).
type Capabilities struct {
	// Attach: the volume must be attached to the node first.
	Attach bool `json:"attach"`
	// SELinuxRelabel: the container runtime shall relabel the volume's files.
	SELinuxRelabel bool `json:"selinuxRelabel"`
	// SupportsMetrics: statfs(2) on the volume gives its usage.
	SupportsMetrics bool `json:"supportsMetrics"`
	// FSGroup: the kubelet shall give the volume's files to the pod's fsGroup.
	FSGroup bool `json:"fsGroup"`
	// RequiresFSResize: after the volume, its file system must be grown.
	RequiresFSResize bool `json:"requiresFSResize"`
}
