package main_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/internal/packet"
	"example.com/pod-info-fuse/podfuse/wire"
	"example.com/pod-info-fuse/survive/volume"
)

// A process of the pod sends what it has of its server volume to one of another pod, by SCM_RIGHTS:
// both pods may have a directory of the host's, or its network.
//
// The directory is of no use there: who connects to the socket in it is asked for his own pod and
// mounts. A socket that is connected counts as his who has connected it, which is what the kernel
// says of it. So the other process can serve this one volume by it, and only this one, as if it had
// been sent the descriptor of /dev/fuse: the pod has given its own volume away. It has it back when
// its next program comes, as nobody of the pod has the descriptor. What others have is what it was.
func TestWhatAPodGivesAway(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	mine, mineServer := n.volume(podUID, "mine"), n.volume(podUID, "mine-server")
	n.must("mount", mine, options(podUID))
	n.must("mount", mineServer, options(podUID, "serves", "mine"))
	other, otherServer := n.volume(otherUID, "data"), n.volume(otherUID, "data-server")
	n.must("mount", other, options(otherUID))
	n.must("mount", otherServer, options(otherUID, "serves", "data"))
	n.serves(other, otherServer)
	reader := n.stays(other, otherServer)
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	must(t, err)
	giver := n.leaks("giver", ends[0], mine, mineServer)
	taker := n.leaks("taker", ends[1], other, otherServer)
	give := func(what, kind string, server string) string {
		t.Helper()
		giver.says(what)
		return taker.says(fmt.Sprint(what, " ", kind, " ", uint64(volume.NewID(server))))
	}

	const refused = "has not server volume"
	for _, kind := range []wire.Kind{wire.Serve, wire.Unmount, wire.Ready} {
		if got := give("directory", string(kind), mineServer); !strings.Contains(got, refused) {
			t.Errorf("by the directory, %s: %q", kind, got)
		}
		// By the socket, what others have is as far away as for who has connected it.
		if got := give("socket", string(kind), otherServer); !strings.Contains(got, refused) {
			t.Errorf("by the socket, %s of another's volume: %q", kind, got)
		}
	}
	if got := give("socket", string(wire.Ready), mineServer); got != "waiting" {
		t.Errorf("by the socket, the volume is %q", got)
	}
	if got := give("socket", string(wire.Serve), mineServer); got != "serves" {
		t.Errorf("by the socket, to serve: %q", got)
	}
	if table := read(t, fmt.Sprintf("/proc/%s/mountinfo", taker.pid())); strings.Contains(table, " - fuse mine ") {
		t.Errorf("the other pod has what is served:\n%s", table)
	}
	n.serves(mine, mineServer) // it is not refused because of the other
	eventually(t, "the pod reads what its own program serves", func() bool { return n.reads(mine, mineServer) == "hello" })

	// When who has connected has ended, nobody asks by it.
	giver.says("socket")
	giver.ends()
	if got := taker.says(fmt.Sprint("socket serve ", uint64(volume.NewID(mineServer)))); got == "serves" {
		t.Error("the socket of a process that has ended is served")
	}
	if got := read(t, reader+"/mnt/data/text"); got != "hello" {
		t.Errorf("a reader in the other pod: %q", got)
	}
	if got := n.reads(other, otherServer); got != "hello" {
		t.Errorf("another reader in the other pod: %q", got)
	}
}

// leaker is a container's process that hands descriptors on, or gets them, when it is told.
type leaker struct {
	n       node
	command *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Reader
}

// leaks starts one, with a socket to the other. It sees nothing of the other pod's volumes.
func (n node) leaks(role string, link int, client, server string) leaker {
	n.t.Helper()
	command := n.inContainer(client, server, self(n.t))
	command.Env = append(command.Env, leakVariable+"="+role)
	file := os.NewFile(uintptr(link), "link")
	defer file.Close()
	command.ExtraFiles, command.Stderr = []*os.File{file}, os.Stderr
	in, err := command.StdinPipe()
	must(n.t, err)
	out, err := command.StdoutPipe()
	must(n.t, err)
	must(n.t, command.Start())
	l := leaker{n, command, in, bufio.NewReader(out)}
	n.t.Cleanup(l.ends)
	return l
}

func (l leaker) ends() {
	_ = l.command.Process.Kill()
	_ = l.command.Wait()
}

// says tells it a line, and returns the one that it answers.
func (l leaker) says(line string) string {
	l.n.t.Helper()
	_, err := fmt.Fprintln(l.in, line)
	must(l.n.t, err)
	answer, err := l.out.ReadString('\n')
	must(l.n.t, err)
	return strings.TrimSpace(answer)
}

// pid is the process's number on the node.
func (l leaker) pid() string {
	l.n.t.Helper()
	inside, err := exec.Command("pgrep", "-P", fmt.Sprint(l.command.Process.Pid)).Output()
	must(l.n.t, err)
	return strings.TrimSpace(string(inside))
}

var leaks = map[string]func() error{"giver": giver, "taker": taker}

const leakLink = 3

// giver sends, for each line, the directory of its server volume, or a socket that it has
// connected.
func giver() error {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var fd int
		var err error
		switch lines.Text() {
		case "directory":
			fd, err = unix.Open("/mnt/server", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		case "socket":
			if fd, err = unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0); err == nil {
				err = unix.Connect(fd, &unix.SockaddrUnix{Name: "/mnt/server/" + wire.Socket})
			}
		}
		if err == nil {
			err = unix.Sendmsg(leakLink, []byte("x"), unix.UnixRights(fd), nil, 0)
		}
		if err != nil {
			return err
		}
		unix.Close(fd)
		fmt.Println("sent")
	}
	return lines.Err()
}

// taker asks, for each line, by what it gets: for a kind of request and a server volume. It serves
// what it may.
func taker() error {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var what string
		var r wire.Request
		if _, err := fmt.Sscan(lines.Text(), &what, &r.Kind, &r.Server); err != nil {
			return err
		}
		rights := make([]byte, unix.CmsgSpace(4))
		_, n, _, _, err := unix.Recvmsg(leakLink, make([]byte, 1), rights, unix.MSG_CMSG_CLOEXEC)
		if err != nil {
			return err
		}
		messages, err := unix.ParseSocketControlMessage(rights[:n])
		if err != nil || len(messages) != 1 {
			return fmt.Errorf("%d messages: %w", len(messages), err)
		}
		fds, err := unix.ParseUnixRights(&messages[0])
		if err != nil {
			return err
		}
		socket := os.NewFile(uintptr(fds[0]), what)
		if what == "directory" {
			directory := socket
			path := fmt.Sprintf("/proc/self/fd/%d/%s", fds[0], wire.Socket)
			conn, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Net: "unixpacket", Name: path})
			if err != nil {
				return err
			}
			directory.Close()
			if socket, err = conn.File(); err != nil {
				return err
			}
			conn.Close()
		}
		fmt.Println(asks(socket, r))
	}
	return lines.Err()
}

// asks returns what the driver answers, and "serves" if this process serves now.
func asks(file *os.File, r wire.Request) string {
	socket, err := packet.New(file)
	file.Close()
	if err != nil {
		return err.Error()
	}
	defer socket.Close()
	if r.Format = wire.Format; r.Kind == wire.Unmount {
		r.Mountpoint = "/mnt"
	}
	var answer wire.Answer
	err = socket.Send(time.Minute, r)
	var text []byte
	var files []*os.File
	if err == nil {
		text, files, err = socket.Receive(time.Now().Add(time.Minute))
	}
	if err == nil {
		err = packet.Decode(text, &answer)
	}
	switch {
	case err == nil && answer.Error != "":
		err = errors.New(answer.Error)
	case err == nil && len(files) == 1:
		go func() { fail("serve", serve("stolen", fmt.Sprintf("/dev/fd/%d", files[0].Fd()))) }()
		return "serves"
	}
	if err != nil {
		return err.Error()
	}
	return string(answer.State)
}
