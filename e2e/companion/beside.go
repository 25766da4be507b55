package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/survive"
)

// verb is the command that is the companion.
const verb = "beside"

// beside implements survive.Companion. It talks to the process by a socket for root.
type beside struct{ n survive.Node }

func (b beside) path(name string) string { return filepath.Join(b.n.RunDir, name) }

const (
	orders  = "orders"  // the socket for root
	clients = "clients" // the socket for everybody, on which the pair listens
)

// say says something to the companion, and returns its answer with what descriptors came with it.
func (b beside) say(text string) (string, []*os.File, error) {
	conn, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: b.path(orders), Net: "unixpacket"})
	if err != nil {
		return "", nil, err
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	if _, err := conn.Write([]byte(text)); err != nil {
		return "", nil, err
	}
	return receive(conn)
}

// Ensure starts the companion if it does not run in this version, and returns its identity.
func (b beside) Ensure() (string, error) {
	answer, _, err := b.say("who")
	if err == nil && strings.HasPrefix(answer, version+" ") {
		return answer, nil
	}
	lock, err := os.OpenFile(b.path("beside.lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return "", err
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		return "", err
	}
	if answer, _, err = b.say("who"); err == nil && strings.HasPrefix(answer, version+" ") {
		return answer, nil // another call-out was faster
	}
	if err := b.Stop(); err != nil {
		return "", err
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return "", err
	}
	defer null.Close()
	process, err := os.StartProcess("/proc/self/exe", []string{os.Args[0], verb}, &os.ProcAttr{
		Dir: "/", Files: []*os.File{null, null, null}, Sys: &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return "", err
	}
	_ = process.Release()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		if answer, _, err = b.say("who"); err == nil || time.Now().After(deadline) {
			return answer, err
		}
	}
}

// Identity returns the companion's identity; "" if it does not run.
func (b beside) Identity() (string, error) {
	answer, _, err := b.say("who")
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ECONNREFUSED) {
		return "", nil
	}
	return answer, err
}

func (b beside) Give() ([]*os.File, error) {
	_, files, err := b.say("give")
	if err == nil && len(files) != 2 {
		err = fmt.Errorf("it gave %d descriptors", len(files))
	}
	return files, err
}

func (b beside) Stop() error {
	_, _, _ = b.say("stop") // its answer is that it ends
	for _, name := range []string{orders, clients, "beside.lock"} {
		if err := os.Remove(b.path(name)); err != nil && !os.IsNotExist(err) {
			return err
		}
	}
	return nil
}

// remember is the life of the companion.
func remember(n survive.Node) error {
	b := beside{n}
	forPods, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: b.path(clients), Net: "unixpacket"})
	if err != nil {
		return err
	}
	forRoot, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: b.path(orders), Net: "unixpacket"})
	if err != nil {
		return err
	}
	listener, err := forPods.File()
	if err != nil {
		return err
	}
	var open atomic.Bool
	for {
		conn, err := forRoot.AcceptUnix()
		if err != nil {
			return err
		}
		switch text, _, _ := receive(conn); text {
		case "who":
			_, _ = fmt.Fprintf(conn, "%s %d", version, os.Getpid())
		case "give":
			fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
			if err != nil {
				return err
			}
			ours, theirs := os.NewFile(uintptr(fds[0]), "ours"), os.NewFile(uintptr(fds[1]), "theirs")
			link, err := net.FileConn(ours)
			if err != nil {
				return err
			}
			_ = send(conn, "here", listener, theirs)
			ours.Close()
			theirs.Close()
			go serve(link.(*net.UnixConn), &open)
		case "stop":
			return nil
		}
		conn.Close()
	}
}

// serve answers a pair, until it has ended, or has sent no descriptor.
func serve(link *net.UnixConn, open *atomic.Bool) {
	defer link.Close()
	for {
		text, files, err := receive(link)
		if err != nil || len(files) != 1 {
			return
		}
		files[0].Close()
		if text == "open" {
			open.Store(true)
		}
		_, _ = fmt.Fprintf(link, "%d %v", os.Getpid(), open.Load())
	}
}

// send sends a packet with descriptors, and receive returns one.
func send(conn *net.UnixConn, text string, files ...*os.File) error {
	var fds []int
	for _, file := range files {
		fds = append(fds, int(file.Fd()))
	}
	_, _, err := conn.WriteMsgUnix([]byte(text), unix.UnixRights(fds...), nil)
	return err
}

func receive(conn *net.UnixConn) (text string, files []*os.File, err error) {
	buffer, rights := make([]byte, 100), make([]byte, 100)
	n, length, _, _, err := conn.ReadMsgUnix(buffer, rights)
	if err != nil {
		return "", nil, err
	} else if n == 0 {
		return "", nil, errors.New("it has hung up")
	}
	messages, _ := unix.ParseSocketControlMessage(rights[:length])
	for _, message := range messages {
		fds, _ := unix.ParseUnixRights(&message)
		for _, fd := range fds {
			unix.CloseOnExec(fd)
			files = append(files, os.NewFile(uintptr(fd), "received"))
		}
	}
	return string(buffer[:n]), files, nil
}
