// Package install puts the driver into a kubelet's plugin directory, keeps it
// there, and removes it.
//
//	PLUGINDIR/
//	    vendor~name/
//	        name              the driver
//	        config.json       its configuration, if there is one
//	        .name.previous    the version before, for Rollback
//	    .pod-info-fuse-XXXX/  what is being installed or removed
//
// The kubelet watches the directory, executes what appears in it, and remembers
// what fails (kubernetes v1.34, pkg/volume/flexvolume/probe.go). So it must never
// see a driver that is not complete: everything is made in a directory whose name
// begins with a dot, which the kubelet ignores, is on disk before it gets its
// name, and gets it by rename(2). Whoever is killed in between leaves such a
// directory, and the next one to come removes it.
//
// In a container, the host's file system is below some directory, into which the
// process changes its root (see cmd/pod-info-fuse). From then on, paths are those of
// the host. Its mounts, however, are those of the container: what has to mount or
// unmount is a process of its own, in the namespaces of the host; see onHost.
package install
