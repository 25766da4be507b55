package pod

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/moby/sys/mountinfo"

	"example.com/pod-info-fuse/internal/proc"
	"example.com/pod-info-fuse/podfuse/wire"
	"example.com/pod-info-fuse/survive/volume"
)

// usualDir is where the documents have the server volume mounted.
const usualDir = "/run/pod-fuse"

// server is a server volume of this container.
type server struct {
	id  volume.ID
	dir string // where it is mounted
	// doubt ends the message of a refusal: the container has another server volume, which may be
	// meant.
	doubt string
}

// findServer returns the server volume that this process is to ask by.
func findServer() (server, error) {
	table, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return server{}, err
	}
	// With one server volume, no ancestor is looked at: SELinux logs that a container may not.
	if only, err := serverOf([]string{""}, bytes.NewReader(table)); err == nil && only.doubt == "" {
		return only, nil
	}
	executables, err := executables()
	if err != nil {
		return server{}, err
	}
	return serverOf(executables, bytes.NewReader(table))
}

// executables are the paths of what this process and its ancestors execute, nearest first. A
// variable that the launcher set would not do: go-fuse executes fusermount with an environment of
// its own.
func executables() ([]string, error) {
	self, err := os.Readlink("/proc/self/exe")
	paths := []string{self}
	for pid, depth := os.Getppid(), 0; err == nil && pid > 0 && depth < 100; depth++ {
		dir := fmt.Sprintf("/proc/%d", pid)
		path, exeErr := os.Readlink(dir + "/exe")
		if exeErr != nil { // another user's
			text, _ := os.ReadFile(dir + "/cmdline")
			path, _, _ = strings.Cut(string(text), "\x00")
		}
		paths = append(paths, path)
		status, _ := proc.StatusIn(dir)
		pid, _ = strconv.Atoi(status["PPid"])
	}
	return paths, err
}

// serverOf chooses from a table of mounts. The directory of a server volume has a FIFO mounted in
// it, which is named by the volume's id. A launcher in such a directory starts programs for that
// volume. A binary that is mounted elsewhere (subPath) does not tell its volume, since all volumes
// have the same one: the FIFO on /dev/fuse tells it.
func serverOf(executables []string, table io.Reader) (server, error) {
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
	var dirs []string
	for _, dir := range slices.Sorted(maps.Keys(shared)) {
		if fifos[filepath.Join(dir, wire.Device)] != 0 {
			dirs = append(dirs, dir)
		}
	}
	if len(dirs) == 0 {
		return server{}, errors.New("this container has no server volume: mount the directory of one, usually at " + usualDir)
	}
	of := func(dir string) server { return server{id: fifos[filepath.Join(dir, wire.Device)], dir: dir} }
	launchers := slices.DeleteFunc(slices.Clone(executables), func(path string) bool { return filepath.Base(path) != wire.Binary })
	for _, path := range append(launchers, executables[0]) {
		if dir := filepath.Dir(path); slices.Contains(dirs, dir) {
			return of(dir), nil
		}
	}
	likely := slices.DeleteFunc(slices.Clone(dirs), func(dir string) bool { return of(dir).id != fifos["/dev/fuse"] })
	told := len(likely) > 0
	if !told {
		likely = dirs
	}
	chosen := of(likely[0])
	if slices.Contains(likely, usualDir) {
		chosen, told = of(usualDir), true
	}
	if slices.ContainsFunc(dirs, func(dir string) bool { return of(dir).id != chosen.id }) {
		several := fmt.Sprintf("this container has server volumes at %s: execute the %s or fusermount3 of the one that is meant, as in %s run -- PROGRAM",
			strings.Join(dirs, " and "), wire.Binary, filepath.Join(dirs[0], wire.Binary))
		if !told {
			return server{}, errors.New(several)
		}
		chosen.doubt = fmt.Sprintf("; the server volume at %s was asked, and %s", chosen.dir, several)
	}
	return chosen, nil
}
