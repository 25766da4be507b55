// Command companion is a driver for tests: it uses all that package survive has beyond a file
// system with answers of its own. Whoever goes into a volume waits until a client of the driver
// says "open". A companion remembers that: a process beside the pair, which a client talks to by
// way of the pair.
package main

import (
	"errors"
	"strings"

	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/flex"
	"example.com/pod-info-fuse/survive"
	"example.com/pod-info-fuse/survive/command"
	"example.com/pod-info-fuse/survive/volume"
)

// version is replaced by the linker.
var version = "0.0.0-dev"

func main() {
	p := command.Program{
		Driver: survive.Driver{
			Program: "companion",
			Version: version,
			FileSystem: func(site survive.Site) survive.FileSystem {
				return &gate{Root: volume.NewRoot(site.Volumes), given: site.CompanionFiles, config: site.Config}
			},
			Companion: func(n survive.Node) survive.Companion { return beside{n} },
			Sockets:   true,
		},
		Name:  "example.com/companion",
		About: "companion is a driver for tests.",
		Configure: func(configuration []byte) (s survive.Settings, err error) {
			if s.Config = strings.TrimSpace(string(configuration)); s.Config == "wrong" {
				err = errors.New("it is wrong")
			}
			return s, err
		},
		CallOuts: func(c survive.CallOuts) flex.Driver { return callOuts{c} },
	}
	p.Commands = []command.Command{{
		Name: verb, Help: "be the companion",
		Prepare: func(set *pflag.FlagSet) func([]string) error {
			node := p.Node(set)
			return func([]string) error {
				n, err := node()
				if err != nil {
					return err
				}
				return remember(n)
			}
		},
	}}
	p.Main()
}

// callOuts has a second kind of volume, which is a tmpfs, and leaves the others as they are.
type callOuts struct{ survive.CallOuts }

const kind = "kind"

func (c callOuts) Mount(dir string, options flex.Options) error {
	if options.Get(kind) != "scratch" {
		return c.CallOuts.Mount(dir, options)
	}
	release, err := c.Node.Acquire()
	if err != nil {
		return err
	}
	defer release()
	return unix.Mount("scratch", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "size=1m")
}

func (c callOuts) Unmount(dir string) error {
	var at unix.Statfs_t
	if err := unix.Statfs(dir, &at); err == nil && at.Type == unix.TMPFS_MAGIC {
		_ = unix.Unmount(dir, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
	}
	return c.CallOuts.Unmount(dir)
}
