// Package flex speaks the FlexVolume call-out protocol, the driver's side of
// it: the kubelet executes a binary with the name of a call-out and its
// arguments, and the binary prints one JSON object.
//
// A driver implements [Driver] and whichever of the optional interfaces
// ([Attacher], [DeviceMounter], [VolumeNamer], [Expander]) it can serve, and
// its main function calls [Main]. A driver that serves a FUSE file system is better off
// with package survive; see docs/second-driver.md.
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
