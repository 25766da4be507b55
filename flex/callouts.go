package flex

// callOut is one row of the protocol: what the kubelet passes, and which
// method serves it. bind returns nil when the driver does not implement it.
type callOut struct {
	parameters []parameter
	bind       func(Driver) func(arguments) Answer
}

// callOuts is the whole protocol, as kubernetes v1.34 speaks it
// (pkg/volume/flexvolume: plugin.go, attacher.go, detacher.go, mounter.go,
// unmounter.go, expander.go).
var callOuts = map[string]callOut{
	"init": {nil, func(d Driver) func(arguments) Answer {
		return func(arguments) Answer {
			capabilities, err := d.Init()
			if err != nil {
				return fail(err)
			}
			return Answer{Status: Success, Capabilities: &capabilities}
		}
	}},
	"mount": {[]parameter{dirParameter, optionsParameter}, func(d Driver) func(arguments) Answer {
		return func(a arguments) Answer { return outcome(d.Mount(a.dir, a.options)) }
	}},
	"unmount": {[]parameter{dirParameter}, func(d Driver) func(arguments) Answer {
		return func(a arguments) Answer { return outcome(d.Unmount(a.dir)) }
	}},

	"getvolumename": {[]parameter{optionsParameter}, optional(func(d VolumeNamer, a arguments) Answer {
		name, err := d.VolumeName(a.options)
		return with(err, Answer{VolumeName: name})
	})},

	"attach": {[]parameter{optionsParameter, nodeParameter}, optional(func(d Attacher, a arguments) Answer {
		device, err := d.Attach(a.options, a.node)
		return with(err, Answer{Device: device})
	})},
	"waitforattach": {[]parameter{deviceParameter, optionsParameter}, optional(func(d Attacher, a arguments) Answer {
		path, err := d.WaitForAttach(a.device, a.options)
		return with(err, Answer{Device: path})
	})},
	"isattached": {[]parameter{optionsParameter, nodeParameter}, optional(func(d Attacher, a arguments) Answer {
		attached, err := d.IsAttached(a.options, a.node)
		return with(err, Answer{Attached: &attached})
	})},
	"detach": {[]parameter{volumeParameter, nodeParameter}, optional(func(d Attacher, a arguments) Answer {
		return outcome(d.Detach(a.volume, a.node))
	})},

	"mountdevice": {[]parameter{dirParameter, deviceParameter, optionsParameter}, optional(func(d DeviceMounter, a arguments) Answer {
		return outcome(d.MountDevice(a.dir, a.device, a.options))
	})},
	"unmountdevice": {[]parameter{dirParameter}, optional(func(d DeviceMounter, a arguments) Answer {
		return outcome(d.UnmountDevice(a.dir))
	})},

	"expandvolume": {[]parameter{optionsParameter, deviceParameter, newSizeParameter, oldSizeParameter}, optional(func(d Expander, a arguments) Answer {
		size, err := d.ExpandVolume(a.options, a.device, a.newSize, a.oldSize)
		return with(err, Answer{VolumeSize: size})
	})},
	"expandfs": {[]parameter{optionsParameter, deviceParameter, dirParameter, newSizeParameter, oldSizeParameter}, optional(func(d Expander, a arguments) Answer {
		return outcome(d.ExpandFS(a.options, a.device, a.dir, a.newSize, a.oldSize))
	})},
}

// optional binds a call-out to an interface that a driver may leave out.
func optional[I any](serve func(I, arguments) Answer) func(Driver) func(arguments) Answer {
	return func(d Driver) func(arguments) Answer {
		implementation, ok := d.(I)
		if !ok {
			return nil
		}
		return func(a arguments) Answer { return serve(implementation, a) }
	}
}

// with is the answer when there is no error.
func with(err error, answer Answer) Answer {
	if err != nil {
		return fail(err)
	}
	answer.Status = Success
	return answer
}
