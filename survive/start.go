package survive

import (
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/internal/mount"
	"example.com/pod-info-fuse/survive/hold"
	"example.com/pod-info-fuse/survive/internal/connection"
	"example.com/pod-info-fuse/survive/internal/metrics"
	"example.com/pod-info-fuse/survive/internal/pair"
	"example.com/pod-info-fuse/survive/volume"
)

// start mounts the node's file system and starts its daemon. The caller holds
// the exclusive lock, and heals next. When it fails, it leaves nothing behind. It returns
// what adopt does.
func (n Node) start() (adopted []Healed, err error) {
	// A daemon that died, or lost its mount, may have left something.
	if err := n.keepNodeMount(); err != nil {
		return nil, err
	}
	n.logCrash()
	if err := n.clear(); err != nil {
		return nil, err
	}
	if err := n.makeDirs(); err != nil {
		return nil, err
	}
	if err := n.chooseUser(); err != nil {
		return nil, err
	}
	if adopted, err = n.adopt(); err != nil {
		return adopted, err
	}
	if err := metrics.CreateCalls(n.path(metrics.CallsFileName)); err != nil {
		n.Log("call-outs are not counted: %v", err) // volumes work without
	}
	serves := false
	defer func() {
		if !serves { // also when a driver's file system panics
			err = errors.Join(err, n.clear(), n.stopIdleCompanion())
		}
	}()
	if err := n.mountAndServe(); err != nil {
		return adopted, err
	}
	serves = true
	n.introduceAll()
	return adopted, nil
}

// mountAndServe does so, and leaves the descriptor that serves to the daemon: when that dies, so does the
// connection. Whoever asks the file system must not have it: killed while the daemon dies, too, he would keep the
// connection that he waits for.
func (n Node) mountAndServe() error {
	device, err := n.mountFS()
	if err != nil {
		return err
	}
	defer unix.Close(device)
	files := n.fileSystem(Site{CallOut: true})
	if files == nil {
		return errNoFileSystem
	}
	agreed, err := connection.Handshake(device, n.fsPath(), files, n.options(), patience)
	if err != nil {
		return fmt.Errorf("mount %s: %w", n.fsPath(), err)
	}
	if _, holds := files.(hold.Holder); holds && agreed.RequestTimeout > 0 {
		n.Log("the kernel aborts a FUSE connection that leaves a request without an answer for %d seconds (sysctl fs.fuse.max_request_timeout, or fs.fuse.default_request_timeout): nobody waits for longer than %v",
			agreed.RequestTimeout, agreed.HoldTimeout())
	}
	if err := volume.WriteFile(n.path("connection.json"), agreed.Encode()); err != nil {
		return fmt.Errorf("record the connection: %w", err)
	}
	return n.startDaemon(device)
}

// introduceTime is how long introduceAll may take. A volume takes a tenth of a millisecond.
const introduceTime = 5 * time.Second

// introduceAll introduces the volumes that healing is about to bring back. Where that fails, or
// takes too long, they work without.
func (n Node) introduceAll() {
	varying := n.varying()
	if len(varying) == 0 {
		return
	}
	ids, _ := n.Volumes().IDs()
	for begun := time.Now(); len(ids) > 0 && time.Since(begun) < introduceTime; ids = ids[1:] {
		record, err := n.Volumes().Get(ids[0])
		if err != nil {
			continue // healing says what is wrong
		}
		source, err := n.introduce(record, varying)
		if isDead(err) {
			return
		} else if err == nil {
			source.Close()
		}
	}
}

// startDaemon starts the daemon's pair on the device and returns when it
// serves.
func (n Node) startDaemon(device int) error {
	lock, err := n.pair().OpenLock()
	if err != nil {
		return err
	}
	defer lock.Close()
	control, err := n.listen()
	if err != nil {
		return fmt.Errorf("make the control socket: %w", err)
	}
	defer control.Close()
	log, err := n.log.Open()
	if err != nil {
		return fmt.Errorf("open the log: %w", err)
	}
	defer log.Close()
	given, err := n.give(false)
	if err != nil {
		return err
	}
	defer given.close()
	resources := pair.Resources{Device: device, Lock: lock, Control: control, Log: log, Input: given.input, Counters: given.counters, Crash: given.crash, Given: given.files, Config: n.Config}
	keepNotes, err := n.noteStarted(given)
	if err == nil {
		err = keepNotes()
	}
	if err != nil {
		return err
	}
	n.forgetFailedUpgrade() // this version serves from now on, or none
	err = n.pair().Start(n.firstArgs(), resources, n.Log, func(pid int) error {
		_, problem, err := n.settle(pid)
		n.noteCgroup(problem)
		return err
	})
	return withLastWords(err, given.crash)
}

// listen makes the control socket. Only its owner, root, can connect to it.
func (n Node) listen() (*os.File, error) {
	if err := os.Remove(n.socket()); err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	listener, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: n.socket(), Net: "unixpacket"})
	if err != nil {
		return nil, err
	}
	defer listener.Close()
	listener.SetUnlinkOnClose(false)
	if err := os.Chmod(n.socket(), 0o600); err != nil {
		return nil, err
	}
	return listener.File()
}

// mountFS mounts the node's file system and returns the descriptor that serves it.
func (n Node) mountFS() (device int, err error) {
	point, err := mount.Open(n.fsPath())
	if err != nil {
		return -1, err
	}
	defer point.Close()
	return n.mountLabelled(point)
}

// keepNodeMount has the file system of the node mount healed when it is gone.
func (n Node) keepNodeMount() error {
	point, err := openMounted(n.fsPath())
	if err != nil || point == nil {
		return err
	}
	defer point.Close()
	info, err := point.Info()
	if err != nil || info == nil || info.FSType != n.fsType() || info.Source != n.Name.String() {
		return err
	}
	n.logLoss()
	return n.keep(point)
}
