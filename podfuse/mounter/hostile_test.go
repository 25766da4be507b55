package mounter

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/e2e/stopwatch"
	"example.com/pod-info-fuse/internal/calllog"
	"example.com/pod-info-fuse/internal/packet"
	"example.com/pod-info-fuse/podfuse"
	"example.com/pod-info-fuse/podfuse/standin"
	"example.com/pod-info-fuse/podfuse/wire"
	"example.com/pod-info-fuse/survive"
	"example.com/pod-info-fuse/survive/survivetest"
	"example.com/pod-info-fuse/survive/volume"
)

// The programs of these tests do what no FUSE library would. What they serve is read by processes
// of the pod, whom the stand-ins of a real pair hold.

// hostile is what a program does wrong. It is right in all else.
type hostile struct {
	// At is the request that it has read when it does: a name of opcodes, or "": none yet.
	At string
	// Do is "die", "hang" (it reads nothing any more), "forget" (it never answers that request),
	// "lock" (it waits for a lock of who asks), or what it answers instead, a name of mutations.
	Do string
	// Answered: it answers well before that.
	Answered bool
	// Flood is a name of floods. It tells that without an end beside.
	Flood string
}

// linux/fuse.h, enum fuse_opcode
var opcodes = map[string]uint32{
	"LOOKUP": 1, "FORGET": 2, "GETATTR": 3, "OPEN": 14, "READ": 15, "STATFS": 17, "RELEASE": 18, "FLUSH": 25, "INIT": 26,
	"OPENDIR": 27, "READDIR": 28, "RELEASEDIR": 29, "INTERRUPT": 36, "BATCH_FORGET": 42,
}

// message is one to the kernel: a reply, or a notification where the id is 0.
func message(status int32, id uint64, body any) []byte {
	text := binary.NativeEndian.AppendUint32(nil, 0) // the length, below
	text = binary.NativeEndian.AppendUint32(text, uint32(status))
	text = binary.NativeEndian.AppendUint64(text, id)
	if body != nil {
		var err error
		if text, err = binary.Append(text, binary.NativeEndian, body); err != nil {
			panic(err)
		}
	}
	return setLength(text, len(text))
}

func setLength(text []byte, length int) []byte {
	binary.NativeEndian.PutUint32(text, uint32(length))
	return text
}

// right is the right answer to a request. There is one file, which is called text.
func right(op uint32, id, node uint64, request []byte) []byte {
	const file = 2
	attr := fuse.Attr{Ino: fuse.FUSE_ROOT_ID, Mode: fuse.S_IFDIR | 0o755, Nlink: 2}
	if node == file || op == opcodes["LOOKUP"] {
		attr = fuse.Attr{Ino: file, Mode: fuse.S_IFREG | 0o644, Nlink: 1, Size: uint64(len(served))}
	}
	switch op {
	case opcodes["INIT"]:
		return message(0, id, fuse.InitOut{Major: 7, Minor: 31, MaxWrite: 4096})
	case opcodes["STATFS"]:
		return message(0, id, fuse.StatfsOut{})
	case opcodes["GETATTR"]:
		return message(0, id, fuse.AttrOut{Attr: attr})
	case opcodes["LOOKUP"]:
		if string(request) != "text\x00" {
			return message(-int32(unix.ENOENT), id, nil)
		}
		return message(0, id, fuse.EntryOut{NodeId: file, Attr: attr})
	case opcodes["OPEN"], opcodes["OPENDIR"]:
		return message(0, id, fuse.OpenOut{})
	case opcodes["READ"]:
		if offset := binary.NativeEndian.Uint64(request[8:]); offset > 0 { // struct fuse_read_in
			return message(0, id, nil)
		}
		return message(0, id, []byte(served))
	case opcodes["READDIR"]:
		return message(0, id, dirent("text"))
	case opcodes["RELEASE"], opcodes["RELEASEDIR"], opcodes["FLUSH"]:
		return message(0, id, nil)
	}
	return message(-int32(unix.ENOSYS), id, nil)
}

const served = "served"

// dirent is a struct fuse_dirent.
func dirent(name string) []byte {
	text, _ := binary.Append(nil, binary.NativeEndian, [2]uint64{2, 1})
	text, _ = binary.Append(text, binary.NativeEndian, [2]uint32{uint32(len(name)), unix.DT_REG})
	text = append(text, name...)
	return append(text, make([]byte, (8-len(text)%8)%8)...)
}

const ones = math.MaxUint32

const header = 16 // bytes of struct fuse_out_header

// patch has other bytes in the body of a reply.
func patch(offset int, value any) func([]byte) [][]byte {
	return func(reply []byte) [][]byte {
		if header+offset <= len(reply) { // or the kernel asks for what is not there
			_, _ = binary.Encode(reply[header+offset:], binary.NativeEndian, value)
		}
		return [][]byte{reply}
	}
}

// put has others in its header.
func put(offset int, value any) func([]byte) [][]byte { return patch(offset-header, value) }

func more(bytes int) func([]byte) [][]byte {
	return func(reply []byte) [][]byte {
		reply = append(reply, make([]byte, bytes)...)
		return [][]byte{setLength(reply, len(reply))}
	}
}

func failure(errno unix.Errno) func([]byte) [][]byte {
	return func(reply []byte) [][]byte {
		return [][]byte{message(-int32(errno), binary.NativeEndian.Uint64(reply[8:]), nil)}
	}
}

func body(value any) func([]byte) [][]byte {
	return func(reply []byte) [][]byte {
		return [][]byte{message(0, binary.NativeEndian.Uint64(reply[8:]), value)}
	}
}

// Where the attributes begin in an answer to LOOKUP and to GETATTR, and what has which place in
// them.
const (
	inEntry, inAttr           = 40, 16
	attrSize, attrMode        = 8, 60
	entryNode, entryNodeValid = 0, 16
)

// mutations make what is written of a right answer.
var mutations = map[string]func(reply []byte) [][]byte{
	"zeros":             func([]byte) [][]byte { return [][]byte{make([]byte, 4096)} },
	"ones":              func([]byte) [][]byte { return [][]byte{[]byte(strings.Repeat("\xff", 4096))} },
	"one byte":          func([]byte) [][]byte { return [][]byte{{1}} },
	"too long a length": func(reply []byte) [][]byte { return [][]byte{setLength(reply, len(reply)+1)} },
	"half":              func(reply []byte) [][]byte { return [][]byte{setLength(reply[:header+4], header+4)} },
	"a mebibyte more":   more(1 << 20),
	"another's id":      put(8, uint64(1<<40)),
	// fs/fuse/fuse_dev_i.h, FUSE_INT_REQ_BIT
	"an interrupt's id":   func(reply []byte) [][]byte { reply[8] |= 1; return [][]byte{reply} },
	"an error above 0":    put(4, uint32(7)),
	"an error below all":  put(4, uint32(1<<31)),
	"all of it twice":     func(reply []byte) [][]byte { return [][]byte{reply, reply} },
	"an error":            failure(unix.EIO),
	"ENOENT":              failure(unix.ENOENT),
	"ENOTCONN":            failure(unix.ENOTCONN),
	"ECONNABORTED":        failure(unix.ECONNABORTED),
	"ECONNREFUSED":        failure(unix.ECONNREFUSED),
	"version 6":           patch(0, uint32(6)),
	"the most of all":     patch(4, [9]uint32{ones, ones, ones, ones, 4096, 1, ones, ones, ones}),
	"a root that is none": patch(inAttr+attrMode, uint32(fuse.S_IFREG|0o644)),
	"a mode of 0":         patch(inEntry+attrMode, uint32(0)),
	"a size below 0":      patch(inEntry+attrSize, uint64(math.MaxUint64)),
	"the root as a child": patch(entryNode, uint64(fuse.FUSE_ROOT_ID)),
	"no node":             patch(entryNode, uint64(0)),
	"valid for ever":      patch(entryNodeValid, [2]uint64{math.MaxUint64, math.MaxUint64}),
	"more than was asked": body(make([]byte, 1<<20)),
	"names of no length":  body(append(dirent(""), dirent("")...)),
	"a name with a slash": body(dirent("../../etc")),
	"a name without end":  body(append(dirent("text")[:16], "\xff\xff\xff\xff\x00\x00\x00\x00text"...)),
}

// floods are notifications (linux/fuse.h, enum fuse_notify_code).
var floods = map[string][][]byte{
	"INVAL_INODE": {
		message(2, 0, [3]int64{1, 0, 0}), message(2, 0, [3]int64{2, 0, -1}), message(2, 0, [3]int64{2, -1, math.MinInt64}),
		message(2, 0, [3]int64{0, math.MaxInt64, math.MaxInt64}), message(2, 0, [3]int64{-1, 0, 0}),
	},
	"INVAL_ENTRY": {
		invalEntry, message(3, 0, []byte("short")),
		message(3, 0, append(encode([1]uint64{1}, [2]uint32{math.MaxUint32, 0}), "text\x00"...)),
		message(6, 0, append(encode([2]uint64{1, 2}, [2]uint32{4, 0}), "text\x00"...)), // DELETE
	},
	"STORE": {
		message(4, 0, append(encode([2]uint64{2, 0}, [2]uint32{6, 0}), "stored"...)),
		message(4, 0, encode([2]uint64{2, math.MaxUint64}, [2]uint32{math.MaxUint32, 0})),
		message(4, 0, append(encode([2]uint64{1, 0}, [2]uint32{4096, 0}), make([]byte, 4096)...)),
	},
	"RESEND": {message(7, 0, nil), message(8, 0, nil)},
	"unknown": {
		message(0, 0, nil), message(77, 0, make([]byte, 100)), message(-1, 0, nil), message(math.MinInt32, 0, make([]byte, 8)),
	},
}

var invalEntry = message(3, 0, append(encode([1]uint64{1}, [2]uint32{4, 0}), "text\x00"...))

func encode(values ...any) (text []byte) {
	for _, value := range values {
		text, _ = binary.Append(text, binary.NativeEndian, value)
	}
	return text
}

// reached is a file that a program makes when it has done something wrong, in its container.
const reached = "/tmp/reached"

// serveWrong serves descriptor 3, until the kernel ends that.
func serveWrong(h hostile) error {
	const device = 3
	do := func(reply []byte) error {
		if err := os.WriteFile(reached, nil, 0o644); err != nil {
			return err
		}
		switch h.Do {
		case "die":
			return unix.Kill(os.Getpid(), unix.SIGKILL)
		case "hang":
			time.Sleep(time.Hour)
		case "lock": // who looks a name up has its directory's lock, for which this waits
			_, err := unix.Write(device, invalEntry)
			return err
		case "forget":
		default:
			for _, text := range mutations[h.Do](reply) {
				_, _ = unix.Write(device, text) // which the kernel may refuse
			}
		}
		return nil
	}
	if h.Flood != "" {
		go func() {
			for first := true; ; first = false {
				for _, text := range floods[h.Flood] {
					_, _ = unix.Write(device, text)
				}
				if first && h.Do == "" {
					_ = os.WriteFile(reached, nil, 0o644)
				}
			}
		}()
	}
	if h.At == "" {
		return do(nil)
	}
	request := make([]byte, 1<<20)
	for {
		n, err := unix.Read(device, request)
		if err == unix.ENODEV || err == unix.ECONNABORTED { // nobody has it mounted any more
			return nil
		} else if err != nil {
			time.Sleep(time.Millisecond)
			continue
		}
		op, id := binary.NativeEndian.Uint32(request[4:]), binary.NativeEndian.Uint64(request[8:])
		node := binary.NativeEndian.Uint64(request[16:])
		if op == opcodes["FORGET"] || op == opcodes["BATCH_FORGET"] || op == opcodes["INTERRUPT"] {
			continue // no answer
		}
		reply := right(op, id, node, request[40:n]) // struct fuse_in_header
		is := op == opcodes[h.At] && h.Do != ""
		if !is || h.Answered {
			_, _ = unix.Write(device, reply)
		}
		if is {
			if err := do(reply); err != nil {
				return err
			}
		}
	}
}

// quitterMain asks to serve a volume, and ends before it has the answer: when it is "connected",
// has "asked", or the answer is there ("answered").
func quitterMain(args []string) error {
	conn, err := net.Dial("unixpacket", "/run/pod-fuse/socket")
	if err != nil {
		return err
	}
	socket, err := packet.Over(conn.(*net.UnixConn))
	if err != nil || args[0] == "connected" {
		return err
	}
	server, err := volume.ParseID(args[1])
	if err != nil {
		return err
	}
	if err := socket.Send(hang, wire.Request{Format: 1, Kind: wire.Serve, Server: server}); err != nil || args[0] == "asked" {
		return err
	}
	return socket.Control(func(fd int) {
		_, _ = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(hang/time.Millisecond))
	})
}

// readerMain reads a file, or lists a directory, and prints what it has got.
func readerMain(args []string) error {
	read := func() (text string, err error) {
		var stat unix.Stat_t
		if err := unix.Stat(args[0], &stat); err != nil {
			return "", err
		}
		if stat.Mode&unix.S_IFMT != unix.S_IFDIR {
			fd, err := unix.Open(args[0], unix.O_RDONLY|unix.O_CLOEXEC, 0) // what package os has would be polled
			if err != nil {
				return "", err
			}
			content := make([]byte, 100)
			n, err := unix.Read(fd, content)
			return string(content[:max(n, 0)]), err
		}
		entries, err := os.ReadDir(args[0])
		return fmt.Sprint(len(entries)), err
	}
	text, err := read()
	var errno unix.Errno
	if errors.As(err, &errno) {
		text, err = unix.ErrnoName(errno), nil
	}
	fmt.Print(text)
	return err
}

// node is a node with a real pair, in this process.
type node struct {
	w                      *world
	group                  string // of the pod
	other, otherReader     *pod
	otherData, otherServer volume.Record
	oneBeside              sync.Mutex // is tested at a time
	mu                     sync.Mutex // guards what follows
	lines                  []string   // that the pair has said
}

const otherPodUID = "99999999-2222-3333-4444-555555555555"

func newNode(t *testing.T) *node {
	t.Helper()
	if os.Getuid() != 0 {
		t.Fatal("this test mounts: run it as root")
	}
	dir := t.TempDir()
	w := &world{t: t, number: worlds.Add(1)}
	n := &node{w: w}
	w.client = Client{
		Config: Config{podfuse.Layout{RunDir: dir}, "fuse.survivetest", "survivetest", thisTest},
		Log:    calllog.New("test", filepath.Join(dir, "log")),
		more:   []string{"LATE=1"}, // the driver's own times
	}
	for _, d := range []string{"volumes", "server-volumes", "fs"} {
		must(t, os.Mkdir(filepath.Join(dir, d), 0o755))
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("log:\n%s", n.said())
		}
	})
	t.Cleanup(w.checkLeft)
	files := func(given ...*os.File) *standin.FileSystem {
		return standin.New(survive.Site{Volumes: w.client.Clients(), CompanionFiles: given, Report: func(problem string) {
			n.mu.Lock()
			defer n.mu.Unlock()
			n.lines = append(n.lines, problem)
		}}, w.client.Layout)
	}
	mounted, err := survivetest.Mount(files(), w.client.FS())
	must(t, err)
	t.Cleanup(w.unmountNode)
	stopPair := func() {}
	t.Cleanup(func() { stopPair() })
	_, err = w.client.Ensure()
	must(t, err)
	t.Cleanup(func() {
		if err := w.client.Stop(); err != nil {
			t.Errorf("stop: %v", err)
		}
	})
	given, err := w.client.Give()
	must(t, err)
	t.Cleanup(func() { packet.Close(given) })
	stopPair, err = mounted.Serve(files(given...), func(problem string) { t.Error(problem) })
	must(t, err)
	n.group = w.podGroup(podUID)
	n.otherData, n.otherServer = mountOn(w, "data", otherPodUID, time.Hour) // from one row to the next, nobody serves it
	n.other = w.container(containerOptions{Client: n.otherData.ID(), Server: n.otherServer.ID()})
	n.otherReader = w.container(containerOptions{Client: n.otherData.ID(), Server: n.otherServer.ID(), Reads: true})
	return n
}

// said is what the driver has said.
func (n *node) said() string {
	text, _ := os.ReadFile(filepath.Join(n.w.client.RunDir, "log"))
	n.mu.Lock()
	defer n.mu.Unlock()
	return string(text) + strings.Join(n.lines, "\n")
}

// mount records the volumes, and binds the stand-in where the kubelet has it.
func mountOn(w *world, name, uid string, wait time.Duration) (client, server volume.Record) {
	w.t.Helper()
	client, server = w.mount(name, uid)
	client.Attributes, _ = json.Marshal(podfuse.Attributes{Format: 1, Wait: wait})
	must(w.t, w.client.Clients().Put(client))
	must(w.t, os.MkdirAll(client.Dir, 0o755))
	must(w.t, unix.Mount(filepath.Join(w.client.FS(), client.ID().String()), client.Dir, "", unix.MS_BIND, ""))
	w.t.Cleanup(func() { must(w.t, unix.Unmount(client.Dir, unix.MNT_DETACH)) })
	return client, server
}

// begin begins a process, and returns what waits for its end, and for what it has said. After the
// limit, that is "waits".
func begin(t *testing.T, cmd *exec.Cmd) func(limit time.Duration) string {
	t.Helper()
	var text strings.Builder
	cmd.Stdout, cmd.Stderr = &text, &text
	must(t, cmd.Start())
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(ended)
	}()
	return func(limit time.Duration) string {
		select {
		case <-ended:
			return text.String()
		case <-time.After(limit):
			return "waits"
		}
	}
}

// isServed tells whether the mounter says so.
func (n *node) isServed(id volume.ID) bool {
	s, err := n.w.client.Status()
	return err == nil && slices.ContainsFunc(s.Volumes, func(v VolumeStatus) bool { return v.Volume == id && v.Served })
}

// beside has another pod's program serve, and a reader who has waited for it read, while the host
// looks at a volume.
func (n *node) beside(h *hostileTest) {
	t := h.world.t
	t.Helper()
	n.oneBeside.Lock()
	defer n.oneBeside.Unlock()
	self, err := os.Executable()
	must(t, err)
	options, _ := json.Marshal(launchOptions{Server: n.otherServer.ID(), Text: "beside"})
	watch := stopwatch.Start()
	host := begin(t, exec.Command("sh", "-c", `echo $$ > "$0" && exec "$@"`, h.group, self, "reader", h.data.Dir))
	read := begin(t, n.otherReader.exec(0, "reader", "/data/text"))
	launcher := begin(t, n.other.exec(0, "launcher", string(options)))
	if text := read(hang); text != "beside" {
		t.Errorf("another pod's volume: %q", text)
	}
	if text := host(hang); text != "0" {
		t.Errorf("the host: %q", text)
	}
	if took, late := watch.Stop(); took > 3*childTime { // children were waited for in vain
		t.Errorf("it took the host and another pod %v, and the machine stood still for %v", took, late)
	}
	for _, pid := range n.other.programs("program") {
		must(t, unix.Kill(pid, unix.SIGKILL))
	}
	if text := launcher(hang); !strings.Contains(text, "the program has ended") {
		t.Errorf("another pod's launcher: %q", text)
	}
}

// row is a program, and what a reader of its volume gets.
type row struct {
	what string
	hostile
	quits string   // it is a process that asks, and no program begins; see quitterMain
	path  string   // that is read; "": /data/text
	want  []string // one of these; "waits": as long as the program lives
	says  string   // that the driver says
	// begins: it serves, though what it does wrong is before that.
	begins bool
}

// wait is how long is waited for the programs of these volumes.
const wait = 300 * time.Millisecond

func testHostile(t *testing.T, rows []row) {
	n := newNode(t)
	for i, r := range rows {
		t.Run(r.what, func(t *testing.T) {
			if r.Flood == "" { // most of it is waiting; several that never rest would leave no processor to what is measured
				t.Parallel()
			}
			own := *n.w
			own.t = t
			(&hostileTest{node: n, world: &own, row: r}).run(fmt.Sprintf("data-%d", i))
		})
	}
}

// hostileTest is that of a row.
type hostileTest struct {
	*node
	*world // of this volume, and of this test
	row
	c, reader *pod // the program's container, and another one
}

func (h *hostileTest) run(name string) {
	t := h.world.t
	h.data, h.server = mountOn(h.world, name, podUID, wait)
	h.c = h.container(containerOptions{})
	h.reader = h.container(containerOptions{Reads: true})

	read := h.begin()
	h.beside(h)
	got := h.result(read)
	if got == "waits" && slices.Contains(h.want, got) {
		h.c.killProgram()
		if text := read(hang); text != "ENOTCONN" && text != "ESTALE" {
			t.Errorf("the reader, after its death: %q", text)
		}
	} else if !slices.Contains(h.want, got) {
		t.Errorf("the reader: %q, want one of %q", got, h.want)
	}
	if h.says != "" {
		eventually(t, fmt.Sprintf("the driver says %q", h.says), func() bool { return strings.Contains(h.said(), h.says) })
	}

	h.killAll()
	h.c.launch(0, launchOptions{Text: "good", Mountpoint: "/m"})
	eventually(t, "the next program's files are read", func() bool {
		return begin(t, h.reader.exec(0, "reader", "/data/text"))(hang) == "good"
	})

	// Once more, where a good one was before, and the pod goes.
	h.killAll()
	read = h.begin()
	before := len(h.w.log())
	watch := stopwatch.Start()
	must(t, h.client.Forget(h.data.ID()))
	if took, late := watch.Stop(); took > 3*childTime {
		t.Errorf("unmount took %v, and the machine stood still for %v", took, late)
	}
	for line := range strings.Lines(h.w.log()[before:]) {
		hangs := strings.Contains(line, errHangs.Error()) || strings.Contains(line, "own mounts stay in their containers")
		if hangs && strings.Contains(line, h.data.ID().String()) && !strings.Contains(line, "attach of") {
			t.Errorf("a child was waited for in vain: %s", line)
		}
	}
	if got := read(hang); got == "waits" {
		t.Error("the reader waits for a volume that is unmounted")
	}
	for _, v := range h.now().Volumes {
		if v.Volume == h.data.ID() && (v.Generation > 0 || v.Dead > 0) {
			t.Errorf("left: %+v", v)
		}
	}
	eventually(t, "its own mount is gone", func() bool {
		return !slices.ContainsFunc(h.c.mounts("fuse"), func(mounted string) bool { return strings.Contains(mounted, " /m ") })
	})
}

// begin begins the program and a reader, and returns when the program does what is wrong.
func (h *hostileTest) begin() (read func(time.Duration) string) {
	t := h.world.t
	path := cmp.Or(h.path, "/data/text")
	flag := fmt.Sprintf("/proc/%d/root%s", h.c.pid, reached)
	_ = os.Remove(flag)
	serves := h.begins || h.quits == "" && h.At != "" && h.At != "INIT"
	if !serves {
		read = begin(t, h.reader.exec(0, "reader", path))
	}
	if h.quits != "" {
		output, err := h.c.exec(0, "quitter", h.quits, h.server.ID().String()).CombinedOutput()
		if err != nil {
			t.Fatalf("%v, %s", err, output)
		}
		return read
	}
	h.c.launch(0, launchOptions{Mountpoint: "/m", Hostile: &h.hostile})
	if serves { // or nobody has waited for so long when it does
		eventually(t, "it serves", func() bool { return h.isServed(h.data.ID()) })
		read = begin(t, h.reader.exec(0, "reader", path))
	}
	eventually(t, "the program does what is wrong", func() bool {
		_, err := os.Stat(flag)
		return err == nil
	})
	return read
}

// result is what a reader has got.
func (h *hostileTest) result(read func(time.Duration) string) string {
	if slices.Contains(h.want, "waits") {
		return read(wait)
	}
	return read(hang)
}

// killAll ends the pod's programs, and returns when the mounter knows.
func (h *hostileTest) killAll() {
	h.world.t.Helper()
	for _, pid := range h.c.programs("program") {
		_ = unix.Kill(pid, unix.SIGKILL)
	}
	eventually(h.world.t, "its death is known", func() bool { return !h.isServed(h.data.ID()) })
}

// What readers get.
var (
	nobody   = []string{"ENOTCONN"} // of a volume that nobody serves
	isServed = []string{served}
)

// gaveUp says that to who looks for the reason.
const gaveUp = "nobody has served it for 300ms, and who waits gets an error"

// A program that does not answer the kernel's first request, or answers it with garbage, serves
// nobody.
func TestAProgramWithoutAGoodBeginning(t *testing.T) {
	t.Parallel()
	rows := []row{
		{what: "it reads nothing", hostile: hostile{Do: "hang"}, want: nobody, says: gaveUp},
		{what: "it does not answer INIT", hostile: hostile{At: "INIT", Do: "hang"}, want: nobody, says: gaveUp},
	}
	for _, do := range []string{"an error", "version 6"} { // which the kernel takes for an answer
		rows = append(rows, row{what: do, hostile: hostile{At: "INIT", Do: do}, want: []string{"ECONNREFUSED"}, begins: true})
	}
	for _, do := range []string{"zeros", "one byte", "too long a length", "another's id", "an error above 0"} {
		rows = append(rows, row{what: do, hostile: hostile{At: "INIT", Do: do}, want: nobody, says: gaveUp})
	}
	testHostile(t, rows)
}

// What a program answers that serves is between it and the kernel.
func TestAProgramThatAnswersGarbage(t *testing.T) {
	t.Parallel()
	rows := []row{{
		what: "INIT, the most of all", hostile: hostile{At: "INIT", Do: "the most of all"}, begins: true,
		want: []string{served, "EIO"},
	}}
	add := func(at, path string, want []string, all ...string) {
		for _, do := range all {
			rows = append(rows, row{what: at + ", " + do, hostile: hostile{At: at, Do: do}, path: path, want: want})
		}
	}
	eio := []string{"EIO"}
	add("GETATTR", "/data", eio, "a root that is none")
	add("LOOKUP", "", eio, "a mode of 0", "a size below 0", "the root as a child", "half", "a mebibyte more")
	add("LOOKUP", "", []string{"ENOENT"}, "no node")
	add("LOOKUP", "", isServed, "valid for ever", "all of it twice")
	add("LOOKUP", "", []string{"waits"}, "ones", "an interrupt's id", "an error below all")
	add("READ", "", eio, "more than was asked")
	add("READDIR", "/data", []string{"EIO", "0"}, "names of no length", "a name with a slash", "a name without end")
	testHostile(t, rows)
}

// What a program tells without having been asked harms its own volume only.
func TestAProgramThatNotifiesWithoutAnEnd(t *testing.T) {
	t.Parallel()
	rows := []row{
		{what: "unknown, before it has begun", hostile: hostile{At: "INIT", Do: "forget", Flood: "unknown"}, want: nobody, says: gaveUp},
		{what: "of what another request has locked", hostile: hostile{At: "LOOKUP", Do: "lock"}, want: []string{"waits"}},
	}
	for flood, want := range map[string][]string{
		"INVAL_INODE": isServed, "INVAL_ENTRY": {served, "ENOENT"}, "STORE": {served, "stored"},
		"RESEND": {served, "waits"}, "unknown": isServed,
	} {
		rows = append(rows, row{what: flood, hostile: hostile{At: "FLOOD", Flood: flood}, want: want})
	}
	testHostile(t, rows)
}

// Wherever a program dies, the next one serves.
func TestAProgramThatDiesAtAnyStep(t *testing.T) {
	t.Parallel()
	var rows []row
	for _, quits := range []string{"connected", "asked", "answered"} {
		rows = append(rows, row{what: quits, quits: quits, want: nobody})
	}
	rows = append(rows, row{what: "given", hostile: hostile{Do: "die"}, want: nobody})
	for _, at := range []string{"INIT", "LOOKUP", "OPEN", "READ"} {
		for _, answered := range []bool{false, true} {
			r := row{what: at + " read", hostile: hostile{At: at, Do: "die", Answered: answered}, want: nobody}
			if answered {
				r.what = at + " answered"
			}
			switch { // what was open is lost
			case at == "READ" && answered:
				r.want = []string{served, "ESTALE"}
			case at == "READ" || at == "OPEN" && answered:
				r.want = []string{"ESTALE"}
			}
			rows = append(rows, r)
		}
	}
	testHostile(t, rows)
}
