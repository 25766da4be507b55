package command

import "example.com/pod-info-fuse/internal/cli"

// table is the program's command line.
func (p Program) table() cli.Table {
	return cli.Table{
		Program: p.Program, Version: p.Version, About: p.About,
		CallOuts: []Command{
			{Name: "init", Help: "tell the driver's capabilities"},
			{Name: "mount", Args: "DIR JSON", Help: "mount a volume on DIR"},
			{Name: "unmount", Args: "DIR", Help: "unmount it"},
		},
		Commands: append([]Command{
			{
				Name: "install", Prepare: p.install, Example: "install --watch --listen :9808 --log-format json",
				Help: "put this binary into the kubelet's plugin directory, in the place of the version before",
				More: "With --watch, the driver is kept installed until SIGTERM.",
			},
			{
				Name: "uninstall", Prepare: p.uninstall, Example: "uninstall --watch",
				Help: "end the daemon and remove the driver from the node; refused while volumes are in use",
				More: "With --watch, no new volume is mounted, and the driver is removed as soon as its volumes are gone.",
			},
			{
				Name: "status", Prepare: p.status, Example: "status -o json",
				Help: "show the node's mount, the daemon and the volumes",
			},
			{
				Name: "stop", Prepare: p.stop, Example: "stop --force",
				Help: "end the daemon and remove the mount; refused while volumes are mounted, which --force unmounts",
			},
			{
				Name: "upgrade", Prepare: p.upgrade, Example: "upgrade --driver " + p.Name,
				Help: "let this version take over from the one that serves, as init does",
			},
			{
				Name: "restore", Prepare: p.restore, Example: "restore -o json",
				Help: "heal volumes whose daemon has died, as init does, and say what was done",
			},
			{
				Name: "watch", Args: "FILE", Prepare: p.watch, Example: "watch --interval 100ms --exit-on-error /volume/file",
				Help: "read a file again and again, and print each result",
			},
		}, p.Commands...),
		Note: "--driver VENDOR/NAME, which most commands have, is the driver to look at when the binary is not in a " +
			"directory vendor~name; its default is " + p.Name + ".",
	}
}
