package flex

// callOut is one row of the protocol: what the kubelet passes, and which
// method serves it. bind returns nil when the driver does not implement it.
type callOut struct {
	parameters string // with ", " between them; see arguments.set
	bind       func(Driver) func(arguments) (Answer, error)
}

// Known tells whether there is a call-out of this name, also where a driver does not
// implement it.
func Known(name string) bool {
	_, known := find(name)
	return known
}

// find returns a call-out by its name. The list is complete for kubernetes v1.34
// (pkg/volume/flexvolume: plugin.go, attacher.go, detacher.go, mounter.go, unmounter.go,
// expander.go).
func find(name string) (found callOut, known bool) {
	switch name {
	case "init":
		found = callOut{"", serve(func(d Driver, _ arguments) (Answer, error) {
			capabilities, err := d.Init()
			return Answer{Capabilities: &capabilities}, err
		})}
	case "mount":
		found = callOut{"directory, options", serve(func(d Driver, a arguments) (Answer, error) {
			return Answer{}, d.Mount(a.dir, a.options)
		})}
	case "unmount":
		found = callOut{"directory", serve(func(d Driver, a arguments) (Answer, error) {
			return Answer{}, d.Unmount(a.dir)
		})}
	case "getvolumename":
		found = callOut{"options", serve(func(d VolumeNamer, a arguments) (Answer, error) {
			name, err := d.VolumeName(a.options)
			return Answer{VolumeName: name}, err
		})}
	case "attach":
		found = callOut{"options, node", serve(func(d Attacher, a arguments) (Answer, error) {
			device, err := d.Attach(a.options, a.node)
			return Answer{Device: device}, err
		})}
	case "waitforattach":
		found = callOut{"device, options", serve(func(d Attacher, a arguments) (Answer, error) {
			path, err := d.WaitForAttach(a.device, a.options)
			return Answer{Device: path}, err
		})}
	case "isattached":
		found = callOut{"options, node", serve(func(d Attacher, a arguments) (Answer, error) {
			attached, err := d.IsAttached(a.options, a.node)
			return Answer{Attached: &attached}, err
		})}
	case "detach":
		found = callOut{"volume, node", serve(func(d Attacher, a arguments) (Answer, error) {
			return Answer{}, d.Detach(a.volume, a.node)
		})}
	case "mountdevice":
		found = callOut{"directory, device, options", serve(func(d DeviceMounter, a arguments) (Answer, error) {
			return Answer{}, d.MountDevice(a.dir, a.device, a.options)
		})}
	case "unmountdevice":
		found = callOut{"directory", serve(func(d DeviceMounter, a arguments) (Answer, error) {
			return Answer{}, d.UnmountDevice(a.dir)
		})}
	case "expandvolume":
		found = callOut{"options, device, new size, old size", serve(func(d Expander, a arguments) (Answer, error) {
			size, err := d.ExpandVolume(a.options, a.device, a.newSize, a.oldSize)
			return Answer{VolumeSize: size}, err
		})}
	case "expandfs":
		found = callOut{"options, device, directory, new size, old size", serve(func(d Expander, a arguments) (Answer, error) {
			return Answer{}, d.ExpandFS(a.options, a.device, a.dir, a.newSize, a.oldSize)
		})}
	}
	return found, found.bind != nil
}

// serve binds a call-out to the interface that has its method, which a driver
// may not implement.
func serve[I any](call func(I, arguments) (Answer, error)) func(Driver) func(arguments) (Answer, error) {
	return func(d Driver) func(arguments) (Answer, error) {
		implementation, ok := d.(I)
		if !ok {
			return nil
		}
		return func(a arguments) (Answer, error) { return call(implementation, a) }
	}
}
