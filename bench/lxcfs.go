package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// startLXCFS starts lxcfs, which tells each container about its own limits.
func (b *bench) startLXCFS() (*server, error) {
	// It has them at a place that nobody can choose. If they are there, they are
	// somebody else's.
	litter := []string{"/run/lxcfs/controllers", "/run/lxcfs/root", "/run/lxcfs"}
	if _, err := os.Lstat("/run/lxcfs"); !errors.Is(err, fs.ErrNotExist) {
		litter = nil
	}
	s, err := b.startC("lxcfs", "proc/uptime", b.other("lxcfs/usr/bin/lxcfs"), "-f", "--pidfile="+filepath.Join(b.root, "lxcfs.pid"))
	if err == nil {
		s.litter = litter
	}
	return s, err
}

// libraries is the directory of the library that lxcfs loads.
func (b *bench) libraries() string {
	found, _ := filepath.Glob(filepath.Join(b.settings.others, "lxcfs/usr/lib/*/lxcfs"))
	return strings.Join(found, ":")
}
