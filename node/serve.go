package node

import (
	"fmt"
	"os"

	"example.com/pod-info-fuse/connection"
	"example.com/pod-info-fuse/daemon"
	"example.com/pod-info-fuse/fs"
)

// Serve is the life of a process of the daemon's pair, which daemon.Start or
// such a process has started.
func (n Node) Serve() error {
	if !daemon.Inherited() {
		return fmt.Errorf("%q is what the driver starts its daemon with, not a command", daemon.Verb)
	}
	data, err := os.ReadFile(n.path("connection.json"))
	if err != nil {
		return err
	}
	agreed, err := connection.DecodeParams(data)
	if err != nil {
		return err
	}
	return daemon.Main(daemon.Config{
		Driver:     n.Driver.String(),
		Version:    n.Version,
		Params:     agreed,
		FS:         fs.New(n.Volumes()),
		MountPoint: n.fsPath(),
		Log:        n.Log,
	})
}
