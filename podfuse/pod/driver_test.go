package pod_test

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/internal/packet"
	"example.com/pod-info-fuse/podfuse/wire"
	"example.com/pod-info-fuse/survive/volume"
)

// fakeDriver stands in for the driver: it answers the requests of one server volume, and mounts
// at one place on the node, or at the program's own mount point, which the container shares with
// the node. It checks nothing, keeps no descriptor, and does not know when a program dies.
type fakeDriver struct {
	t      *testing.T
	id     volume.ID
	dir    string // of the server volume
	at     string // where the volume is mounted on the node
	listen *net.UnixListener

	mu       sync.Mutex
	requests []wire.Request
	mounts   []string
	notice   string // of Serve
	// answer, if it is set, is asked first; with false, the connection is closed instead.
	answer func(n int, r wire.Request) (a *wire.Answer, goOn bool)
}

// What the real driver says, by the pair and by the mounter.
const (
	isGone   = "server volume 0000000000002a is not mounted any more, or its record cannot be read"
	isServed = "another program serves the volume; end it first"
	isNone   = `"/mnt" is not where the program has mounted`
)

// newNode makes what the driver has on a node: the tmpfs with a server volume.
func newNode(t *testing.T) *fakeDriver {
	t.Helper()
	root, err := os.MkdirTemp("", "node-") // short, for a socket's path
	must(t, err)
	t.Cleanup(func() { must(t, os.RemoveAll(root)) })
	must(t, os.Chmod(root, 0o755))
	d := &fakeDriver{t: t, id: volume.NewID(root), at: filepath.Join(root, "shared", "volume")}
	servers := filepath.Join(root, "servers")
	d.dir = filepath.Join(servers, wire.Shared)
	must(t, os.Mkdir(servers, 0o755))
	must(t, unix.Mount(wire.Source, servers, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0755"))
	t.Cleanup(func() { must(t, unix.Unmount(servers, unix.MNT_DETACH)) })
	must(t, os.Mkdir(d.dir, 0o755))
	text, err := os.ReadFile(binary)
	must(t, err)
	must(t, os.WriteFile(filepath.Join(servers, "binary"), text, 0o755))
	for _, name := range append([]string{wire.Binary}, wire.Proxies...) {
		must(t, os.Link(filepath.Join(servers, "binary"), filepath.Join(d.dir, name)))
	}
	fifo, device := filepath.Join(servers, d.id.String()), filepath.Join(d.dir, wire.Device)
	must(t, unix.Mkfifo(fifo, 0))
	must(t, os.Chmod(fifo, 0o666))
	must(t, os.WriteFile(device, nil, 0o600))
	must(t, unix.Mount(fifo, device, "", unix.MS_BIND, ""))

	shared := filepath.Dir(d.at)
	must(t, os.Mkdir(shared, 0o755))
	must(t, unix.Mount(shared, shared, "", unix.MS_BIND, ""))
	t.Cleanup(func() { must(t, unix.Unmount(shared, unix.MNT_DETACH)) })
	must(t, unix.Mount("", shared, "", unix.MS_SHARED, ""))
	must(t, os.Mkdir(d.at, 0o755))
	must(t, os.Mkdir(filepath.Join(shared, "own"), 0o777))
	must(t, os.Chmod(filepath.Join(shared, "own"), 0o777))
	return d
}

// own is the mount point in the container of programs that mount by fusermount.
func (d *fakeDriver) own() string { return filepath.Join(filepath.Dir(d.at), "own") }

// start has it listen, until stop or the end of the test.
func (d *fakeDriver) start() *fakeDriver {
	d.t.Helper()
	socket := filepath.Join(d.dir, wire.Socket)
	_ = os.Remove(socket)
	var err error
	d.listen, err = net.ListenUnix("unixpacket", &net.UnixAddr{Net: "unixpacket", Name: socket})
	must(d.t, err)
	d.listen.SetUnlinkOnClose(false) // as the hard link of a real one stays
	must(d.t, os.Chmod(socket, 0o666))
	go func(listen *net.UnixListener) {
		for {
			c, err := listen.AcceptUnix()
			if err != nil {
				return
			}
			go d.serve(c)
		}
	}(d.listen)
	d.t.Cleanup(d.stop)
	return d
}

// stop also ends all connections: a program that has a file of its own mount open can wait for
// itself while it dies, even of SIGKILL.
func (d *fakeDriver) stop() {
	d.listen.Close()
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, at := range d.mounts {
		_ = unix.Unmount(at, unix.MNT_DETACH|unix.MNT_FORCE)
	}
	d.mounts = nil
}

// asked returns the requests of a kind until now.
func (d *fakeDriver) asked(kind wire.Kind) (of []wire.Request) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, r := range d.requests {
		if r.Kind == kind {
			of = append(of, r)
		}
	}
	return of
}

// serve answers one connection.
func (d *fakeDriver) serve(c *net.UnixConn) {
	defer c.Close()
	text := make([]byte, packet.Max)
	n, err := c.Read(text)
	if err != nil {
		return
	}
	var r wire.Request
	if err := json.Unmarshal(text[:n], &r); err != nil {
		d.t.Errorf("the driver was asked %q: %v", text[:n], err)
		return
	}
	raw, err := c.SyscallConn()
	if err != nil {
		d.t.Error(err)
		return
	}
	var peer *unix.Ucred
	_ = raw.Control(func(fd uintptr) { peer, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	if err != nil {
		d.t.Error(err)
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.requests = append(d.requests, r)
	answer := &wire.Answer{Format: wire.Format, Generation: uint64(len(d.requests))}
	var rights []byte
	if d.answer != nil {
		special, goOn := d.answer(len(d.requests), r)
		if special == nil && !goOn {
			return
		}
		if special != nil {
			d.send(c, special, nil)
			return
		}
	}
	switch r.Kind {
	case wire.Serve:
		device, err := d.mount(r, peer)
		if err != nil {
			d.t.Errorf("the driver could not mount: %v", err)
			answer.Error = err.Error()
			break
		}
		defer unix.Close(device)
		rights, answer.Notice = unix.UnixRights(device), d.notice
	case wire.Unmount:
		if err := unix.Unmount(r.Mountpoint, unix.UMOUNT_NOFOLLOW); err != nil {
			answer.Error = fmt.Sprintf("unmount %s: %v", r.Mountpoint, err)
		}
	}
	d.send(c, answer, rights)
}

func (d *fakeDriver) send(c *net.UnixConn, answer *wire.Answer, rights []byte) {
	text, err := packet.Encode(answer)
	if err == nil {
		_, _, err = c.WriteMsgUnix(text, rights, nil)
	}
	if err != nil {
		d.t.Logf("the driver could not answer: %v", err)
	}
}

// mount opens /dev/fuse and mounts it in the place of what was there.
func (d *fakeDriver) mount(r wire.Request, peer *unix.Ucred) (device int, err error) {
	at := d.at
	if r.Mountpoint != "" {
		at = r.Mountpoint
	}
	_ = unix.Unmount(at, unix.MNT_DETACH|unix.MNT_FORCE)
	device, err = unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return -1, err
	}
	fsType, flags := "fuse", uintptr(unix.MS_NOSUID|unix.MS_NODEV)
	options := fmt.Sprintf("fd=%d,rootmode=40000,user_id=%d,group_id=%d,allow_other", device, peer.Uid, peer.Gid)
	if r.Subtype != "" {
		fsType += "." + r.Subtype
	}
	if r.ReadOnly {
		flags |= unix.MS_RDONLY
	}
	if r.DefaultPermissions {
		options += ",default_permissions"
	}
	if r.MaxRead > 0 {
		options += fmt.Sprintf(",max_read=%d", r.MaxRead)
	}
	if err := unix.Mount("data", at, fsType, flags, options); err != nil {
		unix.Close(device)
		return -1, err
	}
	d.mounts = append(d.mounts, at)
	return device, nil
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
