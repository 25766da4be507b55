package standin

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/internal/packet"
	"example.com/pod-info-fuse/internal/packet/packettest"
	"example.com/pod-info-fuse/podfuse"
	"example.com/pod-info-fuse/podfuse/wire"
	"example.com/pod-info-fuse/survive/volume"
)

// One good request, and a change of it in each row.
func TestRequestsAreChecked(t *testing.T) {
	good := map[string]any{"format": 1, "kind": "serve", "server": 1, "mountpoint": "/mnt/a b", "subtype": "s3fs", "maxRead": 131072, "readOnly": true, "defaultPermissions": true}
	for _, c := range []struct {
		field string
		value any
		want  string // in the error; "": none
	}{
		{"", nil, ""},
		{"kind", "unmount", ""}, {"kind", "ready", ""},
		{"kind", "attach", "kind"}, {"kind", "", "kind"}, {"kind", 7, "JSON"},
		{"format", 2, "upgrade the driver"}, {"format", 0, "no format"}, {"format", -1, "no format"}, {"format", "1", "JSON"},
		{"server", 0, ""}, {"server", uint64(1<<56 - 1), ""}, {"server", -1, "JSON"}, {"server", 1.5, "JSON"},
		{"mountpoint", "", ""}, {"mountpoint", "/" + strings.Repeat("a", wire.LongestPath), "more than"},
		{"mountpoint", "/" + strings.Repeat("a", wire.LongestPath-1), ""}, {"subtype", "", ""}, {"subtype", strings.Repeat("a", 65), "more than"},
		{"later", "field", ""},
	} {
		request := map[string]any{}
		for field, value := range good {
			request[field] = value
		}
		if c.field != "" {
			request[c.field] = c.value
		}
		packet, err := json.Marshal(request)
		if err != nil {
			t.Fatal(err)
		}
		r, err := parse(packet)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %.30v: %v, want %q", c.field, c.value, err, c.want)
		}
		if c.field == "" && (r.Server != 1 || r.Mountpoint != "/mnt/a b" || r.Subtype != "s3fs" || r.MaxRead != 131072 || !r.ReadOnly || !r.DefaultPermissions) {
			t.Errorf("%+v", r)
		}
	}
	for _, packet := range []string{"", "{", "null", "[]", "7", strings.Repeat("[", 9999), strings.Repeat(" ", packet.Max+1)} {
		if _, err := parse([]byte(packet)); err == nil {
			t.Errorf("%.20q: no error", packet)
		}
	}
}

func FuzzRequest(f *testing.F) {
	f.Add([]byte(`{"format":1,"kind":"serve","server":1,"mountpoint":"/mnt","subtype":"s3fs","maxRead":131072}`))
	f.Fuzz(func(t *testing.T, packet []byte) {
		r, err := parse(packet)
		if err != nil {
			if !json.Valid([]byte(fmt.Sprintf("%q", err.Error()))) && len(err.Error()) > 2000 {
				t.Errorf("%v", err)
			}
			return
		}
		if len(r.Mountpoint) > wire.LongestPath || len(r.Subtype) > wire.LongestSubtype || r.Format != 1 {
			t.Errorf("%+v", r)
		}
	})
}

func TestAProgramIsPassedToTheMounter(t *testing.T) {
	r := newRig(t, time.Minute)
	c := r.serverContainer()
	socket := filepath.Join(c.paths[0], wire.Socket)
	request := fmt.Sprintf(`{"format":1,"kind":"serve","server":%d,"mountpoint":"/mnt","subtype":"sshfs","readOnly":true}`, r.server.ID())
	before := wire.SinceBoot()
	asks := c.do("ask", socket, request)
	order, client := r.ordered(wire.Serve)
	if client == nil {
		t.Fatal("the order has no socket")
	}
	want := wire.Order{Ticket: order.Ticket, Server: r.server.ID(), Options: wire.Options{Subtype: "sshfs", ReadOnly: true}, Mountpoint: "/mnt"}
	if order.Accepted < before || order.Accepted > wire.SinceBoot() {
		t.Errorf("accepted %v after the node's start, asked at %v", order.Accepted, before)
	}
	order.Accepted = 0
	if order.Kind = ""; !reflect.DeepEqual(order, want) || order.Ticket == 0 {
		t.Errorf("%+v, want %+v", order, want)
	}
	asks.waits()
	conn, err := net.FileConn(client)
	r.must(err)
	client.Close()
	defer conn.Close()
	_, err = conn.Write([]byte(`{"format":1,"generation":7}`))
	r.must(err)
	r.tell(wire.Event{Kind: wire.Done, Ticket: order.Ticket})
	asks.prints(`{"format":1,"generation":7}`)

	asks = c.do("ask", socket, request)
	order, client = r.ordered(wire.Serve)
	client.Close()
	r.tell(wire.Event{Kind: wire.Done, Ticket: order.Ticket - 1, Error: "of an order of before"})
	asks.waits()
	r.tell(wire.Event{Kind: wire.Done, Ticket: order.Ticket, Error: "another program serves"})
	asks.prints(`{"format":1,"error":"another program serves"}`)

	asks = c.do("ask", socket, strings.Replace(request, "serve", "unmount", 1))
	order, client = r.ordered(wire.Unmount)
	client.Close()
	r.tell(wire.Event{Kind: wire.Done, Ticket: order.Ticket, Error: "it is not mounted there"})
	asks.prints(`{"format":1,"error":"it is not mounted there"}`)

	// One process of the pair ends, and the mounter still has the client.
	asks = c.do("ask", socket, request)
	_, client = r.ordered(wire.Serve)
	r.stop()
	r.serve()
	conn, err = net.FileConn(client)
	r.must(err)
	client.Close()
	defer conn.Close()
	_, err = conn.Write([]byte(`{"format":1,"generation":8}`))
	r.must(err)
	asks.prints(`{"format":1,"generation":8}`)
	r.ask(t, `{"format":1,"kind":"ready"}`, `{"format":1,"state":"waiting"}`)
}

// A process that has just begun to serve does not know yet what the mounter is about to tell it.
func TestReadyIsAskedAgain(t *testing.T) {
	r := newRig(t, time.Minute)
	tell := make(chan struct{})
	r.mu.Lock()
	r.replay = func() { <-tell }
	r.mu.Unlock()
	r.stop()
	r.serve()
	ready := `{"format":1,"kind":"ready"}`
	r.ask(t, ready, `{"format":1,"error":"`+errTemporary.Error()+`","again":true}`)
	close(tell)
	r.ask(t, ready, `{"format":1,"state":"waiting"}`)
}

func TestWhoMayAsk(t *testing.T) {
	r := newRig(t, time.Minute)
	ready := `{"format":1,"kind":"ready"}`
	two := volume.Record{Dir: r.server.Dir + "-two", PodUID: podUID, Attributes: r.json(podfuse.Attributes{Format: 1, Serves: "other"})}
	foreign := volume.Record{Dir: r.server.Dir + "-foreign", PodUID: otherUID, Attributes: r.json(podfuse.Attributes{Format: 1, Serves: "other"})}
	client := volume.Record{Dir: r.server.Dir + "-client", PodUID: podUID, Attributes: r.json(podfuse.Attributes{Format: 1})}
	for _, record := range []volume.Record{two, foreign, client} {
		r.must(os.Mkdir(r.serverDir(record.ID()), 0o755))
		r.must(r.layout.ServerVolumes().Put(record))
	}
	bind := func(record volume.Record) []string {
		return []string{r.serverDir(record.ID()), r.mkdir(record.ID().String())}
	}
	for name, c := range map[string]struct {
		binds   []string
		request string
		want    string
	}{
		"one":              {nil, ready, `"state":"waiting"`},
		"one, which":       {nil, fmt.Sprintf(`{"format":1,"kind":"ready","server":%d}`, r.server.ID()), `"state":"waiting"`},
		"another's":        {nil, fmt.Sprintf(`{"format":1,"kind":"ready","server":%d}`, foreign.ID()), `"error":"the container has not server volume `},
		"two":              {bind(two), ready, `does not say which`},
		"two, which":       {bind(two), fmt.Sprintf(`{"format":1,"kind":"ready","server":%d}`, two.ID()), `"state":"waiting"`},
		"no record":        {nil, fmt.Sprintf(`{"format":1,"kind":"ready","server":%d}`, volume.ID(7)), `"error":"the container has not server volume `},
		"not for a volume": {bind(client), fmt.Sprintf(`{"format":1,"kind":"ready","server":%d}`, client.ID()), `it is no server volume`},
		"too long":         {nil, ready + strings.Repeat(" ", packet.Max), `longer than`},
		"rubbish":          {nil, "rubbish", `not JSON`},
	} {
		container := r.serverContainer(c.binds...)
		p := container.do("ask", filepath.Join(container.paths[0], wire.Socket), c.request)
		select {
		case got := <-p.ended:
			if !strings.Contains(got, c.want) {
				t.Errorf("%s: %s, want %s", name, got, c.want)
			}
		case <-time.After(soon):
			t.Errorf("%s: no answer", name)
		}
	}
	// A process of the host has no server volume, though it can see the socket.
	got := make([]byte, 1000)
	conn, err := net.Dial("unixpacket", filepath.Join(r.serverDir(r.server.ID()), wire.Socket))
	r.must(err)
	defer conn.Close()
	_, err = conn.Write([]byte(ready))
	r.must(err)
	n, err := conn.Read(got)
	if !strings.Contains(string(got[:n]), "has no server volume") {
		t.Errorf("the host: %s, %v", got[:n], err)
	}
}

// A record says whose a server volume is. The cgroups of a test are no pod's, and so faked.
func TestAnotherPodMayNotAsk(t *testing.T) {
	r := newRig(t, time.Minute)
	for cgroup, want := range map[string]string{"systemd": "", "nopods": "", "other-pod": "of another one"} {
		files := tree{"self/cgroup": "", "self/mountinfo": testdata(t, "mountinfo/host"), "7/cgroup": testdata(t, "cgroup/"+cgroup)}
		files["7/mountinfo"] = strings.ReplaceAll(testdata(t, "mountinfo/program"), serverRecord.ID().String(), r.server.ID().String())
		root := files.write(t)
		p, err := newProcesses(root, root+"/self/cgroup", runDir+"/fs", runDir+"/servers")
		r.must(err)
		s := &service{fs: r.fs, processes: p}
		if !s.isOwn(r.record.ID(), 7) || s.isOwn(other, 7) {
			t.Errorf("%s: the process has the server volume of another volume's program", cgroup)
		}
		_, err = (&requests{service: s}).serverOf(7, 0)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", cgroup, err, want)
		}
	}
}

// A pod that connects and says nothing takes nothing from others for long.
func TestConnectionsAreBounded(t *testing.T) {
	r := newRig(t, time.Minute)
	connect := func() net.Conn {
		conn, err := net.Dial("unixpacket", filepath.Join(r.serverDir(r.server.ID()), wire.Socket))
		r.must(err)
		t.Cleanup(func() { conn.Close() })
		_ = conn.SetDeadline(time.Now().Add(soon))
		return conn
	}
	var last net.Conn
	for range mostClientsOfPod {
		last = connect()
	}
	if n, err := connect().Read(make([]byte, 1)); n != 0 || os.IsTimeout(err) {
		t.Errorf("one more than may connect is not refused: %v", err)
	}
	_, err := last.Write([]byte("x"))
	r.must(err)
	if n, err := last.Read(make([]byte, 1000)); n == 0 {
		t.Errorf("the last that may connect has no answer: %v", err)
	}
}

// Many pods that connect and say nothing keep no other pod waiting, though they have all places.
func TestPodsThatSayNothingKeepNobodyOut(t *testing.T) {
	r := newRig(t, time.Minute) // in which such a connection would stay
	hierarchy := "/sys/fs/cgroup"
	if _, err := os.Stat(hierarchy + "/cgroup.procs"); err != nil { // cgroup v1
		hierarchy += "/pids"
	}
	groups, err := os.MkdirTemp(hierarchy, "standin-test-")
	r.must(err)
	t.Cleanup(func() { r.eventually("nobody is in the cgroups", func() bool { return os.Remove(groups) == nil }) })
	c := r.serverContainer()
	socket := filepath.Join(c.paths[0], wire.Socket)
	for n := range mostClients / mostClientsOfPod {
		group := filepath.Join(groups, fmt.Sprintf("pod11111111-2222-3333-4444-%012d", n))
		r.must(os.Mkdir(group, 0o755))
		t.Cleanup(func() { r.eventually("nobody is in the cgroup", func() bool { return unix.Rmdir(group) == nil }) })
		p := c.do("silent", filepath.Join(group, "cgroup.procs"), socket, fmt.Sprint(mostClientsOfPod))
		t.Cleanup(func() { _ = p.cmd.Process.Kill() })
	}
	r.eventually("they have all places", func() bool { return r.fs.clients() == mostClients })
	for range mostClientsOfPod - 2 {
		c.do("ask", socket, `{"format":1,"kind":"serve"}`)
		_, client := r.ordered(wire.Serve)
		defer client.Close()
	}
	r.ask(t, `{"format":1,"kind":"ready"}`, `{"format":1,"state":"waiting"}`)
}

func TestAClientThatSaysNothing(t *testing.T) {
	r := newRig(t, time.Minute, func(f *FileSystem) { f.requestTime = 100 * time.Millisecond })
	conn, err := net.Dial("unixpacket", filepath.Join(r.serverDir(r.server.ID()), wire.Socket))
	r.must(err)
	defer conn.Close()
	_ = conn.SetReadDeadline(time.Now().Add(soon))
	if n, err := conn.Read(make([]byte, 1)); n != 0 || os.IsTimeout(err) {
		t.Errorf("it is still there: %v", err)
	}
}

// What a client sends along is closed with its connection, and no descriptor is left of it.
func TestDescriptorsOfClientsAreNotReceived(t *testing.T) {
	r := newRig(t, time.Minute)
	path := filepath.Join(r.serverDir(r.server.ID()), wire.Socket)
	open := func() int {
		all, err := os.ReadDir("/proc/self/fd")
		r.must(err)
		return len(all)
	}
	before := open()
	for range 20 {
		conn, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: path, Net: "unixpacket"})
		r.must(err)
		_, _, err = conn.WriteMsgUnix([]byte("x"), unix.UnixRights(0, 1, 2), nil)
		r.must(err)
		if n, err := conn.Read(make([]byte, 1000)); n == 0 && !errors.Is(err, unix.ECONNRESET) {
			t.Errorf("there is no answer: %v", err)
		}
		conn.Close()
	}
	r.eventually("all descriptors are closed", func() bool { return open() <= before+2 })
}

// Before Linux 6.16, a client can leave a socket in its connection whose close takes as long as it
// wants. It keeps neither the loop that accepts connections, nor a thread for each of its own.
func TestWhatAClientLeavesKeepsNobody(t *testing.T) {
	r := newRig(t, time.Minute)
	connect := func() *packet.Socket {
		conn, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: filepath.Join(r.serverDir(r.server.ID()), wire.Socket), Net: "unixpacket"})
		r.must(err)
		socket, err := packet.Over(conn)
		r.must(err)
		t.Cleanup(socket.Close)
		return socket
	}
	leave := func(client *packet.Socket) {
		left := packettest.Lingering(t)
		defer packet.CloseAside(left) // this may be the last
		r.must(client.Send(packet.NoLimit, "x", left))
	}
	answer := func(client *packet.Socket) string {
		text, _, err := client.Receive(time.Now().Add(10 * time.Second))
		if errors.Is(err, unix.ECONNRESET) { // said once, and before what still waits to be read
			text, _, err = client.Receive(time.Now().Add(10 * time.Second))
		}
		if err != nil {
			return err.Error()
		}
		return string(text)
	}
	for n := range mostClientsOfPod + 2 {
		client := connect()
		leave(client)
		if got := answer(client); !strings.Contains(got, "the request comes with descriptors") {
			t.Fatalf("client %d has the answer %s", n, got)
		}
		r.eventually("client "+fmt.Sprint(n)+" is forgotten", func() bool { return r.fs.clients() == 0 })
	}

	var idle []*packet.Socket
	for range mostClientsOfPod {
		idle = append(idle, connect())
	}
	r.eventually("no more clients are let in", func() bool { return r.fs.clients() == mostClientsOfPod })
	requests := r.fs.service.Load().requests
	requests.mu.Lock() // one more is accepted when something has been left in it
	one := connect()
	leave(one)
	requests.mu.Unlock()
	if got := answer(one); got != io.EOF.Error() {
		t.Errorf("one more than may connect has the answer %s", got)
	}
	for _, client := range idle {
		client.Close()
	}
	r.eventually("they have left", func() bool { return r.fs.clients() == 0 })
	last := connect()
	r.must(last.Send(packet.NoLimit, "x"))
	if got := answer(last); !strings.Contains(got, "not JSON") {
		t.Errorf("another client has the answer %s", got)
	}
}

func (f *FileSystem) clients() int {
	d := f.service.Load().requests
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.clients)
}

func TestAMounterThatIsGoneIsLogged(t *testing.T) {
	r := newRig(t, time.Minute)
	c := r.container("")
	r.program(map[string]string{"x": "first"}).serves()
	c.do("cat", c.paths[0]+"/x").prints("first")
	fresh := r.container("")
	r.mounter.Close()
	select {
	case line := <-r.logged:
		if !strings.Contains(line, "the mounter is gone") {
			t.Error(line)
		}
	case <-time.After(soon):
		t.Fatal("nothing is logged")
	}
	fresh.do("stat", fresh.paths[0]).isHeld()
	c.do("cat", c.paths[0]+"/x").prints("first")
	r.ask(t, `{"format":1,"kind":"serve"}`, `{"format":1,"error":"`+errTemporary.Error()+`","again":true}`)
}
