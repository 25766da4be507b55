package main

import (
	"path/filepath"

	"example.com/pod-info-fuse/flex"
	"example.com/pod-info-fuse/internal/calllog"
	"example.com/pod-info-fuse/podfuse"
	"example.com/pod-info-fuse/podfuse/mounter"
	"example.com/pod-info-fuse/podfuse/pod"
	"example.com/pod-info-fuse/podfuse/standin"
	"example.com/pod-info-fuse/survive"
	"example.com/pod-info-fuse/survive/command"
	"example.com/pod-info-fuse/survive/volume"
)

// program describes the driver.
func program() command.Program {
	return command.Program{
		Driver: survive.Driver{
			Program: "pod-fuse",
			Version: version,
			FileSystem: func(site survive.Site) survive.FileSystem {
				return standin.New(site, podfuse.Layout{RunDir: filepath.Dir(site.Volumes.Dir)})
			},
			// Whose view a process has, say its mounts and its cgroup.
			Reads:        func() []string { return []string{"/proc"} },
			CheckRecord:  func(r volume.Record) error { _, err := podfuse.AttributesOf(r); return err },
			Companion:    func(n survive.Node) survive.Companion { return client(n) },
			OtherVolumes: func(n survive.Node) survive.OtherVolumes { return podfuse.ServersOn(n) },
			Sockets:      true,
		},
		Name:  "example.com/pod-fuse",
		About: "pod-fuse is a FlexVolume driver that mounts what FUSE programs in pods serve.",
		Check: podfuse.Check,
		CallOuts: func(c survive.CallOuts) flex.Driver {
			return podfuse.CallOuts{CallOuts: c, Forget: client(c.Node).Forget}
		},
		Status:   sections,
		Commands: append(pod.Commands(), injects),
	}
}

// client is how call-outs ask the node's mounter.
func client(n survive.Node) mounter.Client {
	return mounter.Client{
		Config: mounter.Config{
			Layout: podfuse.Layout{RunDir: n.RunDir}, Type: "fuse." + n.Program, Source: n.Name.String(), Version: n.Version,
		},
		Log:    calllog.New(n.Program, n.Settings.Log),
		Settle: func(pid int) error { return n.Inside().Escape(pid, mounter.MaxThreads) },
	}
}
