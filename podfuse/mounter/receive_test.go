package mounter

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/e2e/slowclose"
	"example.com/pod-info-fuse/internal/packet"
	"example.com/pod-info-fuse/podfuse/wire"
)

// A pair that was taken over sends a file with its orders that cannot be closed, one of a FUSE file
// system whose server does not answer. The mounter answers, and other programs come to serve, also
// by this link; it goes on so when it is killed and when another one takes over, and it can be
// stopped.
func TestAFileThatCannotBeClosed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.container(containerOptions{})
	file := slowclose.Mount(t)
	hostile, err := w.client.Give() // a link of its own, so that this test reads the answers
	must(t, err)
	link, err := packet.New(hostile[1])
	must(t, err)
	t.Cleanup(link.Close)
	file.Every = true
	orders := []wire.Order{
		{Kind: wire.Serve, Server: w.server.ID()},
		{Kind: wire.Unmount, Server: w.server.ID(), Mountpoint: "/m"},
		{Kind: wire.Attach, Volume: w.data.ID(), Generation: 1, PID: c.pid},
		{Kind: wire.Spent, Volume: w.data.ID(), Generation: 1},
		{Kind: "unknown"},
	}
	for i := range orders {
		orders[i].Ticket = uint64(i + 1)
	}
	for range mostReceivers { // of which each has two
		orders = append(orders, wire.Order{Kind: wire.Serve, Server: w.server.ID(), Ticket: uint64(len(orders) + 1)})
	}
	text, _ := json.Marshal(orders)
	sender := exec.Command("/proc/self/exe", "sender", file.Path, string(text))
	sender.ExtraFiles, sender.Stderr = hostile[1:], os.Stderr
	must(t, sender.Start())
	packet.Close(hostile)
	t.Cleanup(func() {
		_ = sender.Process.Kill()
		file.Answer()
		_ = sender.Wait()
	})
	answered := map[uint64]string{}
	for len(answered) < len(orders) {
		text, files, err := link.Receive(time.Now().Add(hang))
		if err != nil {
			t.Fatalf("after the answers %v: %v", answered, err)
		}
		packet.Close(files)
		var e wire.Event
		must(t, packet.Decode(text, &e))
		if e.Ticket != 0 {
			answered[e.Ticket] = e.Error
		}
	}
	file.Waits(t) // somebody hangs
	for i, o := range orders {
		answer := answered[uint64(i+1)]
		refused := strings.Contains(answer, "no socket") || strings.Contains(answer, "cannot be closed")
		if hasSocket(o.Kind) && !refused || answer == "" {
			t.Errorf("%s was answered %q", o.Kind, answer)
		}
	}

	works := func(when, program string) {
		t.Helper()
		generation := c.serve(launchOptions{Text: program})
		if problem := w.attach(generation, c.pid); problem != "" {
			t.Fatalf("%s: %s", when, problem)
		}
		if text, err := c.read("/data/text"); text != program {
			t.Errorf("%s: %q, %v", when, text, err)
		}
		c.killProgram()
		w.died(generation)
	}
	works("at first", "one")
	before := w.status("a spare", func(s Status) bool { return s.Spare != 0 })
	must(t, unix.Kill(before.PID, unix.SIGKILL))
	w.status("the mounter has ended, and its spare goes on", func(s Status) bool { return s.PID == before.Spare && s.Spare != 0 })
	works("after its death", "two")
	newer := w.client
	newer.Version = "2.0"
	_, err = newer.Ensure()
	must(t, err)
	works("of another version", "three")
	last := w.now()
	must(t, newer.Stop())
	eventually(t, "stopped, it has ended", func() bool { return unix.Kill(last.PID, 0) != nil })
}

// senderMain opens a file, and sends orders with it by a link, as somebody else: the mounter does
// not end because this process hangs.
func senderMain(args []string) error {
	link, err := packet.New(os.NewFile(3, "link"))
	if err != nil {
		return err
	}
	var orders []wire.Order
	if err := json.Unmarshal([]byte(args[1]), &orders); err != nil {
		return err
	}
	file, err := os.Open(args[0])
	if err != nil {
		return err
	}
	for _, o := range orders {
		if err := link.Send(hang, o, file); err != nil {
			return fmt.Errorf("send %s: %w", o.Kind, err)
		}
	}
	time.Sleep(time.Hour)
	return file.Close()
}

// What a pod sends by the socket of its server volume comes without descriptors: the kernel refuses
// those (Linux 6.16), also when the mounter took the socket over from a version that let them in. A
// program that sends none can serve.
func TestPodsSendNoDescriptors(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.container(containerOptions{})
	refused := func(when string) {
		t.Helper()
		want := "operation not permitted"
		if _, err := unix.GetsockoptInt(w.podsNumber(), unix.SOL_SOCKET, unix.SO_PASSRIGHTS); err == unix.ENOPROTOOPT {
			want = "served" // and nobody receives it
		}
		if answer := c.refused(0, launchOptions{Encloses: true}); !strings.Contains(answer, want) {
			t.Errorf("%s: a request with a descriptor: %q, want %q", when, answer, want)
		}
	}
	refused("at first")
	newer := w.client
	newer.Version = "2.0"
	_, err := newer.Ensure()
	must(t, err)
	w.status("the other version", func(s Status) bool { return s.Version == "2.0" })
	refused("after an upgrade")
	c.serve(launchOptions{Text: "one"})
}

// podsNumber is the descriptor of the socket that pods ask by.
func (w *world) podsNumber() (number int) {
	raw, err := w.pods.(*net.UnixListener).SyscallConn()
	must(w.t, err)
	must(w.t, raw.Control(func(fd uintptr) { number = int(fd) }))
	return number
}
