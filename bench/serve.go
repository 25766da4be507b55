package main

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/fs"
	"example.com/pod-info-fuse/survive"
	"example.com/pod-info-fuse/survive/survivetest"
	"example.com/pod-info-fuse/survive/volume"
)

// The driver's file system, served in this process, without a daemon, by one of
// these.
var serving = map[string]func(files *fs.FS, dir string) error{"go-fuse": serveGoFuse, "connection": serveConnection}

// serve is a process that serves a volume, in a directory that has the records, the
// mount, and the volume bound from it. At each line of its input it prints how many
// objects were allocated so far; at the end of its input it unmounts and ends.
func serve(args []string) error {
	flags := flag.NewFlagSet("serve", flag.ContinueOnError)
	how := flags.String("how", "", "")
	dir := flags.String("dir", "", "")
	if err := flags.Parse(args); err != nil {
		return err
	}
	store := volume.Store{Dir: filepath.Join(*dir, "records")}
	record := volume.Record{Dir: volumeServed, PodUID: uidOf(1), Mounted: time.Now()}
	point := filepath.Join(*dir, "fs")
	bound := filepath.Join(*dir, "volume")
	if err := errors.Join(os.Mkdir(store.Dir, 0o700), os.Mkdir(point, 0o700), os.Mkdir(bound, 0o700), store.Put(record)); err != nil {
		return err
	}
	if err := serving[*how](fs.New(survive.Site{Volumes: store}), point); err != nil {
		return err
	}
	// As the driver does: a reader does not ask for the directories from the root on.
	if err := unix.Mount(filepath.Join(point, record.ID().String()), bound, "", unix.MS_BIND, ""); err != nil {
		return errors.Join(err, unix.Unmount(point, unix.MNT_DETACH))
	}
	fmt.Println("ready")
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		var memory runtime.MemStats
		runtime.ReadMemStats(&memory)
		fmt.Println(memory.Mallocs)
	}
	return errors.Join(unix.Unmount(bound, unix.MNT_DETACH), unix.Unmount(point, unix.MNT_DETACH))
}

// volumeServed is the directory that the volume is said to be mounted on.
const volumeServed = "/somewhere"

func serveGoFuse(files *fs.FS, dir string) error {
	server, err := fuse.NewServer(files, dir, &fuse.MountOptions{
		DirectMountStrict: true, AllowOther: true, Options: []string{"default_permissions"},
		MaxWrite: survivetest.MaxRead, DisableReadDirPlus: true, EnableSymlinkCaching: true,
	})
	if err != nil {
		return err
	}
	go server.Serve()
	return server.WaitMount()
}

func serveConnection(files *fs.FS, dir string) error {
	return survivetest.Serve(files, dir, func(problem string) { fmt.Fprintln(os.Stderr, problem) })
}
