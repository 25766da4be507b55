package flex

// callOut is one row of the protocol: what the kubelet passes, and which
// method serves it. bind returns nil when the driver does not implement it.
type callOut struct {
	parameters []parameter
	bind       func(Driver) func(arguments) Answer
}

// find returns a call-out by its name. These are all, as kubernetes v1.34
// speaks the protocol (pkg/volume/flexvolume: plugin.go, attacher.go,
// detacher.go, mounter.go, unmounter.go, expander.go).
func find(name string) (found callOut, known bool) {
	switch name {
	case "init":
		found = callOut{nil, serve(func(d Driver, _ arguments) Answer {
			capabilities, err := d.Init()
			return with(err, Answer{Capabilities: &capabilities})
		})}
	case "mount":
		found = callOut{[]parameter{dirParameter, optionsParameter}, serve(func(d Driver, a arguments) Answer {
			return outcome(d.Mount(a.dir, a.options))
		})}
	case "unmount":
		found = callOut{[]parameter{dirParameter}, serve(func(d Driver, a arguments) Answer {
			return outcome(d.Unmount(a.dir))
		})}
	case "getvolumename":
		found = callOut{[]parameter{optionsParameter}, serve(func(d VolumeNamer, a arguments) Answer {
			name, err := d.VolumeName(a.options)
			return with(err, Answer{VolumeName: name})
		})}
	case "attach":
		found = callOut{[]parameter{optionsParameter, nodeParameter}, serve(func(d Attacher, a arguments) Answer {
			device, err := d.Attach(a.options, a.node)
			return with(err, Answer{Device: device})
		})}
	case "waitforattach":
		found = callOut{[]parameter{deviceParameter, optionsParameter}, serve(func(d Attacher, a arguments) Answer {
			path, err := d.WaitForAttach(a.device, a.options)
			return with(err, Answer{Device: path})
		})}
	case "isattached":
		found = callOut{[]parameter{optionsParameter, nodeParameter}, serve(func(d Attacher, a arguments) Answer {
			attached, err := d.IsAttached(a.options, a.node)
			return with(err, Answer{Attached: &attached})
		})}
	case "detach":
		found = callOut{[]parameter{volumeParameter, nodeParameter}, serve(func(d Attacher, a arguments) Answer {
			return outcome(d.Detach(a.volume, a.node))
		})}
	case "mountdevice":
		found = callOut{[]parameter{dirParameter, deviceParameter, optionsParameter}, serve(func(d DeviceMounter, a arguments) Answer {
			return outcome(d.MountDevice(a.dir, a.device, a.options))
		})}
	case "unmountdevice":
		found = callOut{[]parameter{dirParameter}, serve(func(d DeviceMounter, a arguments) Answer {
			return outcome(d.UnmountDevice(a.dir))
		})}
	case "expandvolume":
		found = callOut{[]parameter{optionsParameter, deviceParameter, newSizeParameter, oldSizeParameter}, serve(func(d Expander, a arguments) Answer {
			size, err := d.ExpandVolume(a.options, a.device, a.newSize, a.oldSize)
			return with(err, Answer{VolumeSize: size})
		})}
	case "expandfs":
		found = callOut{[]parameter{optionsParameter, deviceParameter, dirParameter, newSizeParameter, oldSizeParameter}, serve(func(d Expander, a arguments) Answer {
			return outcome(d.ExpandFS(a.options, a.device, a.dir, a.newSize, a.oldSize))
		})}
	}
	return found, found.bind != nil
}

// serve binds a call-out to the interface that has its method, which a driver
// may not implement.
func serve[I any](call func(I, arguments) Answer) func(Driver) func(arguments) Answer {
	return func(d Driver) func(arguments) Answer {
		implementation, ok := d.(I)
		if !ok {
			return nil
		}
		return func(a arguments) Answer { return call(implementation, a) }
	}
}
