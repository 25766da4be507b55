package node

import (
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/connection"
	"example.com/pod-info-fuse/fs"
)

// workers is how many requests are served at a time. They take microseconds
// and wait for nothing.
const workers = 2

// gcPercent makes the garbage of served requests be collected early: nothing of
// it lives longer than a request, and the runtime's default would let 4 MB of it
// gather before it collects for the first time.
const gcPercent = 20

// Serve is the daemon: it serves the node mount, on the descriptors that spawn
// passed, until the file system is unmounted or SIGTERM comes. report is told
// of what goes wrong meanwhile.
func (n Node) Serve(report func(problem string)) error {
	if !isFUSE(deviceFD) {
		return fmt.Errorf("%q is what the driver starts its daemon with, not a command", ServeVerb)
	}
	ready := os.NewFile(readyFD, "readiness pipe")
	lock := os.NewFile(lockFD, "daemon.lock")
	defer runtime.KeepAlive(lock) // closing it would release the lock
	debug.SetGCPercent(gcPercent)
	// Executed through /proc/self/exe, it would be called "exe" by ps and top.
	_ = os.WriteFile("/proc/self/comm", []byte("pod-info-fuse"), 0)
	c, err := n.connect(lock, report)
	if err != nil {
		fmt.Fprint(ready, err)
		ready.Close()
		return err
	}
	terminate := make(chan os.Signal, 1)
	signal.Notify(terminate, unix.SIGTERM)
	go func() {
		<-terminate
		c.Stop()
	}()
	// The kernel keeps requests until they are read: from here on none is lost.
	fmt.Fprint(ready, readyWord)
	ready.Close()
	return c.Serve()
}

// isFUSE tells whether a descriptor is of /dev/fuse
// (Documentation/admin-guide/devices.txt: character device 10:229).
func isFUSE(fd int) bool {
	var stat unix.Stat_t
	err := unix.Fstat(fd, &stat)
	return err == nil && stat.Mode&unix.S_IFMT == unix.S_IFCHR && uint64(stat.Rdev) == unix.Mkdev(10, 229)
}

func (n Node) connect(lock *os.File, report func(string)) (*connection.Connection, error) {
	if err := become(lock); err != nil {
		return nil, err
	}
	data, err := os.ReadFile(n.path("connection.json"))
	if err != nil {
		return nil, err
	}
	agreed, err := connection.DecodeParams(data)
	if err != nil {
		return nil, err
	}
	c, err := connection.New(deviceFD, agreed, fs.New(n.Volumes()), workers, report)
	if err != nil {
		return nil, err
	}
	// The workers have duplicates. The one that came with exec would keep the
	// connection alive when they end.
	return c, unix.Close(deviceFD)
}
