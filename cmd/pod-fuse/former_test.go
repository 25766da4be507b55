package main_test

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/podfuse"
	"example.com/pod-info-fuse/podfuse/wire"
	"example.com/pod-info-fuse/survive/volume"
)

// asOf011 makes a server volume what version 0.1.1 has left: a directory of the servers' tmpfs, which
// also has the launcher, and the socket that all volumes have a link to. The volume is recorded.
func (n node) asOf011(server string) {
	n.t.Helper()
	servers := podfuse.Layout{RunDir: n.runDir}.Servers()
	for _, path := range []string{server, servers} {
		must(n.t, unix.Unmount(path, unix.MNT_DETACH))
	}
	must(n.t, unix.Mount(wire.Source, servers, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0755,size=64m"))
	dir := filepath.Join(servers, volume.NewID(server).String())
	must(n.t, os.Mkdir(dir, 0o755))
	for _, name := range []string{"binary", wire.Socket} {
		must(n.t, os.WriteFile(filepath.Join(servers, name), nil, 0o600))
		must(n.t, os.Link(filepath.Join(servers, name), filepath.Join(dir, name)))
	}
	must(n.t, unix.Mkfifo(filepath.Join(dir, wire.Device), 0o666))
	must(n.t, unix.Mount(dir, server, "", unix.MS_BIND, ""))
}

func (n node) upgrades() {
	n.t.Helper()
	must(n.t, os.Remove(n.path))
	must(n.t, os.Link(newer, n.path))
	if output, err := n.command("upgrade").CombinedOutput(); err != nil {
		n.t.Fatalf("upgrade: %v: %s", err, output)
	}
}

// A node is upgraded while pods have server volumes of version 0.1.1. These can be unmounted, also
// before the mounter is a new one, and mounted again, which changes nothing that the pod has.
func TestServerVolumesOfVersion011(t *testing.T) {
	for name, upgrades := range map[string]bool{"before the upgrade": false, "after the upgrade": true} {
		for _, how := range []string{"unmount", "mount", "stop"} {
			t.Run(how+" "+name, func(t *testing.T) {
				n := newNode(t)
				client, server := n.pod()
				n.asOf011(server)
				pod, err := os.Open(server) // as its container does
				must(t, err)
				defer pod.Close()
				if upgrades {
					n.upgrades()
				}
				switch how {
				case "unmount":
					n.must("unmount", server)
					n.must("unmount", client)
				case "stop":
					if output, err := n.command("stop", "--force").CombinedOutput(); err != nil {
						t.Fatalf("stop --force: %v: %s", err, output)
					}
					n.isGone()
				case "mount":
					n.must("mount", server, options(podUID, "serves", "data"))
					if info, err := pod.Stat(); err != nil || info.Mode() != os.ModeDir|0o755 {
						t.Errorf("the pod's volume: %v, %v", info, err)
					}
					if !upgrades {
						return // the daemon was not started with what is there now
					}
					n.serves(client, server) // in a container that has been made anew
					if got := n.reads(client, server); got != "hello" {
						t.Errorf("read %q", got)
					}
					return
				}
				if left, _ := filepath.Glob(filepath.Join(n.runDir, "server*", volume.NewID(server).String())); n.isMounted(server) > 0 || len(left) > 0 {
					t.Errorf("%d mounts, and %q are left", n.isMounted(server), left)
				}
			})
		}
	}
}
