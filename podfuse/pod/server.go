package pod

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/moby/sys/mountinfo"

	"example.com/pod-info-fuse/podfuse/wire"
	"example.com/pod-info-fuse/survive/volume"
)

// usualDir is where a server volume is mounted by those who have no reason to do otherwise.
const usualDir = "/run/pod-fuse"

// server is a server volume of this container.
type server struct {
	id  volume.ID
	dir string // where it is mounted
}

// findServer returns the server volume that this binary is in, or the only one.
func findServer() (server, error) {
	executable, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return server{}, err
	}
	table, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return server{}, err
	}
	return serverOf(executable, bytes.NewReader(table))
}

// serverOf chooses from a table of mounts. One of a server volume has its id for a root, and
// one of a file in it (subPath) the id and the file's name.
func serverOf(executable string, table io.Reader) (server, error) {
	var own volume.ID
	var servers []server
	_, err := mountinfo.GetMountsFromReader(table, func(mount *mountinfo.Info) (skip, stop bool) {
		name, file, _ := strings.Cut(strings.TrimPrefix(mount.Root, "/"), "/")
		id, err := volume.ParseID(name)
		if err != nil || mount.FSType != "tmpfs" || mount.Source != wire.Source {
			return true, false
		}
		if mount.Mountpoint == executable || mount.Mountpoint == filepath.Dir(executable) {
			own = id // the last one is on top
		}
		if file == "" {
			servers = append(servers, server{id, mount.Mountpoint})
		}
		return true, false
	})
	if err != nil {
		return server{}, fmt.Errorf("read mountinfo: %w", err)
	}
	if own != 0 {
		servers = slices.DeleteFunc(servers, func(s server) bool { return s.id != own })
	}
	slices.SortStableFunc(servers, func(a, b server) int {
		return cmp.Compare(rank(a.dir, executable), rank(b.dir, executable))
	})
	switch {
	case len(servers) == 0:
		return server{}, errors.New("this container has no server volume: mount the directory of one, usually at " + usualDir)
	case own == 0 && servers[0].dir != usualDir:
		for _, other := range servers {
			if other.id != servers[0].id {
				return server{}, fmt.Errorf("this container has server volumes at %s and at %s: execute the %s of one of them", servers[0].dir, other.dir, wire.Binary)
			}
		}
	}
	return servers[0], nil
}

// rank is lowest for the directory that is asked first.
func rank(dir, executable string) int {
	switch dir {
	case filepath.Dir(executable):
		return 0
	case usualDir:
		return 1
	}
	return 2
}
