package attack

import (
	"errors"
	"fmt"
	"os"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/internal/confine"
)

// others are datagram sockets of another service, which everybody may send to. Whoever has the
// first plays that service: it is nobody's any more when its process has ended.
var others = []*unix.SockaddrUnix{
	{Name: "@pod-info-fuse-attack"},
	{Name: "/tmp/.pod-info-fuse-attack-socket"},
}

// turn is how long to wait for another test that plays the service.
const turn = 5 * time.Minute

// Listen plays the other service. Arrived tells how many datagrams it got.
func Listen() (arrived func() int, end func(), err error) {
	var sockets []int
	end = func() {
		os.Remove(others[1].Name)
		for _, fd := range sockets {
			unix.Close(fd)
		}
	}
	for i, address := range others {
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
		if err == nil {
			sockets = append(sockets, fd)
			err = unix.Bind(fd, address)
		}
		for deadline := time.Now().Add(turn); err == unix.EADDRINUSE && time.Now().Before(deadline); err = unix.Bind(fd, address) {
			if i == 0 {
				time.Sleep(10 * time.Millisecond)
			} else {
				os.Remove(address.Name) // of a test that was killed
			}
		}
		if err != nil {
			for _, fd := range sockets {
				unix.Close(fd)
			}
			return nil, nil, fmt.Errorf("play another service on %s: %w", address.Name, err)
		}
	}
	if err := os.Chmod(others[1].Name, 0o777); err != nil {
		end()
		return nil, nil, err
	}
	return func() (count int) {
		for _, fd := range sockets {
			for {
				if _, err := unix.Read(fd, make([]byte, 100)); err != nil {
					break
				}
				count++
			}
		}
		return count
	}, end, nil
}

// onSockets are the ways to somebody else's socket, from those that the daemon has or
// could make.
func onSockets(log int) (list []Attack) {
	for _, address := range others {
		for name, send := range map[string]func(fd int, to *unix.SockaddrUnix) error{
			"sendto": func(fd int, to *unix.SockaddrUnix) error { return unix.Sendto(fd, []byte("x"), unix.MSG_DONTWAIT, to) },
			"sendmsg": func(fd int, to *unix.SockaddrUnix) error {
				return unix.Sendmsg(fd, []byte("x"), nil, to, unix.MSG_DONTWAIT)
			},
			"sendmmsg": sendmmsg,
			"connect":  connectAndWrite,
		} {
			list = append(list,
				Attack{fmt.Sprintf("%s from the log to %s", name, address.Name), func() error { return send(log, address) }},
				Attack{fmt.Sprintf("%s from a pair to %s", name, address.Name), func() error {
					return withPair(unix.SOCK_DGRAM, func(fd int) error { return send(fd, address) })
				}},
			)
		}
	}
	nothing := func(int) error { return nil }
	return append(list,
		Attack{"make a pair of datagram sockets", func() error { return withPair(unix.SOCK_DGRAM, nothing) }},
		Attack{"make a pair of stream sockets", func() error { return withPair(unix.SOCK_STREAM, nothing) }},
		Attack{"make a pair of raw sockets", func() error { return withPair(unix.SOCK_RAW, nothing) }}, // means datagrams
		Attack{"send a descriptor", func() error { return withPair(unix.SOCK_SEQPACKET, sendDescriptor) }},
		Attack{"put another socket in the place of the sender, and send one", func() error {
			return withPair(unix.SOCK_SEQPACKET, func(fd int) error {
				if err := unix.Dup3(fd, confine.SendFD, unix.O_CLOEXEC); err != nil {
					return err
				}
				defer unix.Close(confine.SendFD)
				return sendDescriptor(confine.SendFD)
			})
		}},
		Attack{"open a file in the place of the sender", func() error {
			fd, err := unix.FcntlInt(0, unix.F_DUPFD_CLOEXEC, confine.SendFD)
			return descriptor(fd, err)
		}},
	)
}

func sendDescriptor(fd int) error {
	return unix.Sendmsg(fd, []byte("x"), unix.UnixRights(fd), nil, unix.MSG_DONTWAIT)
}

func withPair(kind int, f func(fd int) error) error {
	fds, err := unix.Socketpair(unix.AF_UNIX, kind|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fds[0])
	defer unix.Close(fds[1])
	return f(fds[0])
}

func connectAndWrite(fd int, to *unix.SockaddrUnix) error {
	if err := unix.Connect(fd, to); err != nil {
		return err
	}
	_, err := unix.Write(fd, []byte("x"))
	return err
}

func sendmmsg(fd int, to *unix.SockaddrUnix) error {
	name := unix.RawSockaddrUnix{Family: unix.AF_UNIX}
	for i, c := range []byte(to.Name) {
		name.Path[i] = int8(c)
	}
	length := uint32(unsafe.Offsetof(name.Path)) + uint32(len(to.Name)) + 1
	if to.Name[0] == '@' { // stands for a zero, and no other ends the name
		name.Path[0] = 0
		length--
	}
	text := []byte("x")
	vector := unix.Iovec{Base: &text[0]}
	vector.SetLen(len(text))
	message := struct { // struct mmsghdr
		header unix.Msghdr
		sent   uint32
	}{}
	message.header.Name, message.header.Namelen = (*byte)(unsafe.Pointer(&name)), length
	message.header.Iov = &vector
	message.header.SetIovlen(1)
	n, _, errno := unix.Syscall6(unix.SYS_SENDMMSG, uintptr(fd), uintptr(unsafe.Pointer(&message)), 1, unix.MSG_DONTWAIT, 0, 0)
	if errno != 0 {
		return errno
	} else if n != 1 {
		return errors.New("nothing was sent")
	}
	return nil
}
