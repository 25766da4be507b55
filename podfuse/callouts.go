package podfuse

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"example.com/pod-info-fuse/flex"
	"example.com/pod-info-fuse/survive"
	"example.com/pod-info-fuse/survive/volume"
)

// CallOuts are the call-outs of the driver: those of package survive for client volumes, which are
// stand-ins, and [Servers] for server volumes, which no process serves. It implements
// [flex.Driver].
type CallOuts struct {
	survive.CallOuts
	// Forget ends what a program serves for a client volume that was unmounted. It asks the
	// mounter, within a limit.
	Forget func(volume.ID) error
}

var _ flex.Driver = CallOuts{}

// Mount makes a volume of either kind appear in dir. When it fails, it leaves nothing behind, but a
// record while something is mounted on dir, or may be: stop unmounts what has a record.
func (c CallOuts) Mount(dir string, options flex.Options) error {
	if _, serves := options.Lookup(OptionServes); !serves {
		return c.CallOuts.Mount(dir, options)
	}
	record, err := c.Record(dir, options)
	if err != nil {
		return err
	}
	servers := ServersOn(c.Node)
	if _, err := servers.check(record.Dir); err != nil {
		return err
	}
	release, err := c.Node.Acquire()
	if err != nil {
		return err
	}
	defer release()
	unlock, err := c.Node.Inside().LockVolume(record.ID())
	if err != nil {
		return err
	}
	defer unlock()
	mounted, err := servers.mount(record)
	if err == nil && !mounted && c.Repeated != nil {
		c.Repeated()
	}
	return err
}

// Unmount removes a volume of either kind from dir. A directory that has no volume is a success,
// because the kubelet repeats calls whose end it does not know.
//
// Unmounting a client volume also ends the program's connection, and so the volume ends for its
// containers as well. Otherwise a process that waits for a program that hangs would keep its
// container from ending.
func (c CallOuts) Unmount(dir string) error {
	dir, err := volume.CleanDir(dir)
	if err != nil {
		return err
	}
	layout := Layout{c.Node.RunDir}
	client, known := layout.clientOf(volume.NewID(dir))
	c.Ends = true
	if err := c.CallOuts.Unmount(dir); err != nil {
		return err
	}
	if _, err := layout.Clients().Get(client); !known || err == nil { // nil: it was the server volume
		return nil
	}
	// The volume is gone, whatever becomes of its program: the next mounter finds no record of it.
	if err := c.Forget(client); err != nil {
		c.Node.Log("unmount %s: end what its program serves: %v", dir, err)
	}
	return nil
}

// clientOf is the client volume that a volume is, or is for.
func (l Layout) clientOf(id volume.ID) (client volume.ID, known bool) {
	if _, err := l.Clients().Get(id); err == nil {
		return id, true
	}
	server, err := l.ServerVolumes().Get(id)
	if err != nil {
		return 0, false
	}
	client, err = Client(server)
	return client, err == nil
}

// BesideServer says which client volumes the pod of a server volume has, for a user whose server
// volume serves none of them. It follows a sentence that says so, and is "" if there are none.
func (l Layout) BesideServer(server volume.Record) string {
	_, of := nameAndDoor(server.Dir)
	ids, _ := l.Clients().IDs()
	var names []string
	for _, id := range ids {
		client, err := l.Clients().Get(id)
		if err != nil || client.PodUID != server.PodUID {
			continue
		}
		name, by := nameAndDoor(client.Dir)
		if name = strconv.Quote(name); by != of {
			name += fmt.Sprintf(" by %s, which a server volume by %s cannot serve", by, of)
		}
		names = append(names, name)
	}
	const most = 5
	if len(names) > most {
		names = append(names[:most], "others")
	}
	if len(names) == 0 {
		return ""
	}
	return "; the pod has " + strings.Join(names, " and ") + "; for a claim, serves takes the persistent volume's name"
}

// nameAndDoor are the name that serves has for a volume, and how the kubelet asks for it. Volumes
// of one pod serve each other only by the same way: see [volume.Beside].
func nameAndDoor(dir string) (name, door string) {
	_, rest, ok := volume.SplitDir(dir)
	if !ok {
		return filepath.Base(dir), ""
	}
	parts := strings.Split(rest, "/") // UID/volumes/PLUGIN/NAME
	if parts[2] == volume.CSIPlugin {
		return parts[3], "CSI"
	}
	return parts[3], "FlexVolume"
}
