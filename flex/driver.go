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

// Attacher is implemented by drivers that answer true for
// [Capabilities.Attach]: their volumes are attached to a node before they are
// mounted.
type Attacher interface {
	// Attach attaches the volume to the node and returns the device's path.
	Attach(options Options, node string) (device string, err error)

	// WaitForAttach returns when the device has appeared on this node.
	WaitForAttach(device string, options Options) (path string, err error)

	// IsAttached tells whether the volume is attached to the node.
	IsAttached(options Options, node string) (bool, error)

	// Detach undoes Attach.
	Detach(volume, node string) error
}

// DeviceMounter is implemented by drivers that mount a device once per node,
// before its directories are mounted into pods.
type DeviceMounter interface {
	MountDevice(dir, device string, options Options) error
	UnmountDevice(dir string) error
}

// VolumeNamer is implemented by drivers that know a name for a volume that is
// unique in the cluster.
type VolumeNamer interface {
	VolumeName(options Options) (string, error)
}

// Expander is implemented by drivers whose volumes can grow. Sizes are in
// bytes.
type Expander interface {
	// ExpandVolume grows the volume and returns its size afterwards.
	ExpandVolume(options Options, device string, newSize, oldSize int64) (size int64, err error)

	// ExpandFS grows the file system on the volume.
	ExpandFS(options Options, device, dir string, newSize, oldSize int64) error
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
