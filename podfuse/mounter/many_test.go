package mounter

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/podfuse/wire"
	"example.com/pod-info-fuse/survive/volume"
)

// holderMain asks for many connections at the same time, and keeps what it is given. It reads
// nothing of it.
func holderMain(args []string) error {
	var given sync.WaitGroup
	for _, text := range args {
		given.Go(func() {
			err := errLater
			for ; errors.Is(err, errLater); time.Sleep(10 * time.Millisecond) {
				var device *os.File
				if _, device, err = ask(text); err == nil {
					_, err = unix.Dup(int(device.Fd())) // no collector closes it
				}
			}
			if err != nil {
				fmt.Fprintln(os.Stderr, err)
			}
		})
	}
	given.Wait()
	fmt.Println("holds")
	time.Sleep(time.Hour)
	return nil
}

// manyVolumes are a pod's, with a container for the programs of all of them.
func (w *world) manyVolumes(n int, uid string) (c *pod, servers []volume.ID) {
	w.t.Helper()
	var first volume.ID
	for i := range n {
		data, server := w.mount(fmt.Sprint("data", i), uid)
		if i == 0 {
			first = data.ID()
		}
		servers = append(servers, server.ID())
	}
	return w.container(containerOptions{Client: first, Server: servers[0], More: servers[1:]}), servers
}

// hold has a process of the container ask for connections.
func (c *pod) hold(user int, all []launchOptions) (said io.Reader, cmd *exec.Cmd) {
	c.w.t.Helper()
	args := []string{"holder"}
	for _, o := range all {
		text, _ := json.Marshal(o)
		args = append(args, string(text))
	}
	cmd = c.exec(user, args...)
	cmd.Stderr = os.Stderr
	said, err := cmd.StdoutPipe()
	must(c.w.t, err)
	must(c.w.t, cmd.Start())
	c.w.t.Cleanup(func() {
		c.kill()
		_ = cmd.Wait()
	})
	return said, cmd
}

// Programs that never answer FUSE_INIT, as forty sshfs whose server hangs, cost no process of the
// mounter's, and it serves other pods.
func TestProgramsThatNeverAnswer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	before := w.status("a spare", func(s Status) bool { return s.Spare != 0 })
	for i := range 4 {
		c, servers := w.manyVolumes(15, fmt.Sprintf("%08d-2222-3333-4444-555555555555", i))
		var all []launchOptions
		for i, id := range servers {
			o := launchOptions{Server: id}
			if i == 0 {
				o.Mountpoint = "/m"
			}
			all = append(all, o)
		}
		said, _ := c.hold(0, all)
		_, err := said.Read(make([]byte, 10))
		must(t, err)
	}
	c := w.container(containerOptions{})
	generation := c.serve(launchOptions{Text: "served", Mountpoint: "/m"})
	if problem := w.attach(generation, c.pid); problem != "" {
		t.Fatal(problem)
	}
	if text, err := c.read("/data/text"); text != "served" {
		t.Errorf("%q, %v", text, err)
	}
	eventually(t, "no child waits for programs that do not answer", func() bool { return len(w.childrenLeft()) == 0 })
	after := w.now()
	if waits := len(after.Volumes) - 1; waits != 60 {
		t.Errorf("%d programs have a connection and do not answer, not 60", waits)
	}
	if after.PID != before.PID || after.Spare != before.Spare {
		t.Errorf("before: process %d and spare %d; after: %d and %d", before.PID, before.Spare, after.PID, after.Spare)
	}
}

// A pod has so many orders under way that no more are taken, as with a thousand volumes. Other pods
// are served.
func TestManyOrdersOfAPodKeepNoOtherPodOut(t *testing.T) {
	t.Parallel()
	awaits, lets, variable := stopsAt(t, "attach")
	w := newWorld(t, variable)
	const otherUID = "99999999-2222-3333-4444-555555555555"
	otherData, otherServer := w.mount("data", otherUID)
	one := w.container(containerOptions{Client: otherData.ID(), Server: otherServer.ID()})
	generation := one.serve(launchOptions{Server: otherServer.ID()})
	attach := wire.Order{Kind: wire.Attach, Volume: otherData.ID(), Generation: generation, PID: one.pid}
	w.order(attach)
	awaits("attach") // which all others of the volume wait for
	c := w.container(containerOptions{})
	generation = c.serve(launchOptions{Text: "served"})
	for range mostOrders {
		w.order(attach)
	}
	if problem := w.attach(generation, c.pid); problem != "" {
		t.Errorf("the other pod: %s", problem)
	}
	lets("attach")
}

// A pod's user has mount points of many volumes below a FUSE mount of his own that hangs. Few
// children wait there, and the mounter serves other pods.
func TestOwnMountPointsThatHang(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c, servers := w.manyVolumes(24, "99999999-2222-3333-4444-555555555555")
	ends := c.everyName("/m")
	var all []launchOptions
	for i, id := range servers {
		all = append(all, launchOptions{Server: id, Mountpoint: fmt.Sprint("/m/never", i)})
	}
	_, holder := c.hold(1000, all)
	eventually(t, "children wait there", func() bool { return len(w.childrenLeft()) >= mostHanging })

	other := w.container(containerOptions{})
	generation := other.serve(launchOptions{Text: "served", Mountpoint: "/m"})
	if problem := w.attach(generation, other.pid); problem != "" {
		t.Fatal(problem)
	}
	if text, err := other.read("/data/text"); text != "served" {
		t.Errorf("%q, %v", text, err)
	}
	if left := w.childrenLeft(); len(left) > mostHangingOut {
		t.Errorf("%d children wait in the containers of one pod", len(left))
	}
	_ = holder.Process.Kill()
	ends()
}
