package pod

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
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

// serverOf chooses from a table of mounts. The directory of a server volume has a FIFO mounted in it,
// which is named by the volume's id. A binary that is mounted elsewhere (subPath) does not tell its
// volume, since all volumes have the same one: the FIFO on /dev/fuse tells it.
func serverOf(executable string, table io.Reader) (server, error) {
	shared := map[string]bool{}     // directories
	fifos := map[string]volume.ID{} // by their path; the last one is on top
	_, err := mountinfo.GetMountsFromReader(table, func(mount *mountinfo.Info) (skip, stop bool) {
		if mount.FSType != "tmpfs" || mount.Source != wire.Source {
			return true, false
		}
		name := strings.TrimPrefix(mount.Root, "/")
		if id, err := volume.ParseID(name); err == nil {
			fifos[mount.Mountpoint] = id
		} else if name == wire.Shared {
			shared[mount.Mountpoint] = true
		}
		return true, false
	})
	if err != nil {
		return server{}, fmt.Errorf("read mountinfo: %w", err)
	}
	own := fifos["/dev/fuse"]
	var servers []server
	for _, path := range slices.Sorted(maps.Keys(fifos)) {
		dir, name := filepath.Split(path)
		if dir = filepath.Clean(dir); name != wire.Device || !shared[dir] {
			continue
		}
		servers = append(servers, server{fifos[path], dir})
		if dir == filepath.Dir(executable) {
			own = fifos[path]
		}
	}
	if of := slices.DeleteFunc(slices.Clone(servers), func(s server) bool { return s.id != own }); len(of) > 0 {
		servers = of
	} else {
		own = 0
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
