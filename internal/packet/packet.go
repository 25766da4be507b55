// Package packet has processes of a driver talk to each other: by packets of JSON, with
// descriptors, over sockets of type SOCK_SEQPACKET (man 7 unix). What it receives may be hostile: a
// packet is bounded, no wait is without a limit unless the caller says so, and the descriptors of a
// packet that is refused are closed.
package packet

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Max is the largest packet, in bytes.
const Max = 16 << 10

// mostFiles is how many descriptors a packet can have.
const mostFiles = 8

// Socket is one end of a connection.
type Socket struct {
	conn *net.UnixConn
	raw  syscall.RawConn
}

// Pair makes the two ends of a connection.
func Pair() (one, other *os.File, err error) {
	// With a flag more or less, filters of system calls would refuse it.
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	return os.NewFile(uintptr(fds[0]), "link"), os.NewFile(uintptr(fds[1]), "link"), nil
}

// New returns the connection that a descriptor is of. It uses a duplicate, and makes the
// socket non-blocking, for all who have it.
func New(file *os.File) (*Socket, error) {
	if _, err := check(file); err != nil {
		return nil, err
	}
	conn, err := net.FileConn(file)
	if err != nil {
		return nil, fmt.Errorf("%s is no connection: %w", file.Name(), err)
	}
	return Over(conn.(*net.UnixConn))
}

// check refuses a descriptor that is something else, and returns its number.
func check(file *os.File) (number int, err error) {
	number, err = Number(file)
	var domain, kind int
	if err == nil {
		domain, err = unix.GetsockoptInt(number, unix.SOL_SOCKET, unix.SO_DOMAIN)
	}
	if err == nil {
		kind, err = unix.GetsockoptInt(number, unix.SOL_SOCKET, unix.SO_TYPE)
	}
	if err == nil && (domain != unix.AF_UNIX || kind != unix.SOCK_SEQPACKET) {
		err = unix.EPROTOTYPE
	}
	runtime.KeepAlive(file)
	if err != nil {
		return -1, fmt.Errorf("%s is no socket of packets: %w", file.Name(), err)
	}
	return number, nil
}

// firstWait is how long Dial waits at first for a place, before it tries again.
const firstWait = 10 * time.Millisecond

// Dial connects to the socket at a path. Where as many connections wait there as can, it waits for
// a place in the kernel. Package net would return EAGAIN, and a process that connects again and
// again would have each place before one that pauses.
//
// The kernel wakes one waiter for each place, the first one first. A waiter that is woken may not
// connect: it resolves its path anew, through its own file system, or its pod has no time left.
// The waiters behind it then sleep beside a free place. So Dial tries again, after a longer wait
// each time.
func Dial(path string, deadline time.Time) (*Socket, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	file := os.NewFile(uintptr(fd), path)
	defer file.Close()
	wait := firstWait
	for err = unix.EINTR; err == unix.EINTR || err == unix.EAGAIN && time.Now().Before(deadline); {
		if err == unix.EAGAIN {
			wait *= 2
		}
		limit := unix.NsecToTimeval(max(min(wait, time.Until(deadline)), time.Microsecond).Nanoseconds())
		if err = unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &limit); err == nil {
			err = unix.Connect(fd, &unix.SockaddrUnix{Name: path})
		}
	}
	if err == unix.EAGAIN {
		err = os.ErrDeadlineExceeded
	}
	if err != nil {
		return nil, &net.OpError{Op: "dial", Net: "unixpacket", Addr: &net.UnixAddr{Name: path, Net: "unixpacket"}, Err: os.NewSyscallError("connect", err)}
	}
	return New(file)
}

// Over returns the same over a connection, which it takes over.
func Over(conn *net.UnixConn) (*Socket, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		conn.Close()
		return nil, err
	}
	return &Socket{conn, raw}, nil
}

// Close closes this duplicate.
func (s *Socket) Close() { s.conn.Close() }

// Duplicate returns another duplicate.
func (s *Socket) Duplicate() (*os.File, error) { return s.conn.File() }

// Control calls a function with the socket's number.
func (s *Socket) Control(f func(fd int)) error { return s.raw.Control(func(fd uintptr) { f(int(fd)) }) }

// Peer is the process that has connected, as the kernel tells.
func (s *Socket) Peer() (peer *unix.Ucred, err error) {
	controlErr := s.Control(func(fd int) { peer, err = unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED) })
	return peer, errors.Join(controlErr, err)
}

// NoLimit has Send wait for as long as it takes.
const NoLimit = time.Duration(math.MaxInt64)

// Send sends a message with descriptors, and waits at most so long for a reader.
func (s *Socket) Send(limit time.Duration, message any, files ...*os.File) error {
	return s.send(limit, message, files, sendmsg)
}

func sendmsg(number int, packet, rights []byte) error {
	return unix.Sendmsg(number, packet, rights, nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
}

// NoFiles is for a SendBy that sends no descriptors.
const NoFiles = -1

// SendBy is Send for a process whose filter of system calls lets it send descriptors by one
// descriptor alone (see package confine): by is that, and is of the same socket.
func (s *Socket) SendBy(by int, limit time.Duration, message any, files ...*os.File) error {
	return s.send(limit, message, files, func(number int, packet, rights []byte) error {
		if rights != nil {
			return sendmsg(by, packet, rights)
		}
		_, err := unix.Write(number, packet) // Go ignores SIGPIPE
		return err
	})
}

func (s *Socket) send(limit time.Duration, message any, files []*os.File, call func(number int, packet, rights []byte) error) error {
	packet, err := Encode(message)
	if err != nil {
		return err
	}
	rights, err := rightsOf(files)
	if err != nil {
		return err
	}
	// Once without a limit, which could be over before this process has a processor.
	try := func(fd uintptr) bool {
		for err = unix.EINTR; err == unix.EINTR; {
			err = call(int(fd), packet, rights)
		}
		return err != unix.EAGAIN
	}
	waitErr := s.raw.Control(func(fd uintptr) { try(fd) })
	if err == unix.EAGAIN {
		_ = s.conn.SetWriteDeadline(time.Now().Add(limit))
		waitErr = s.raw.Write(try)
	}
	runtime.KeepAlive(files)
	if waitErr != nil {
		return waitErr
	}
	return os.NewSyscallError("send", err)
}

// ErrTooLong says that a packet was larger than any can be, or had more descriptors, or one that
// this process may not have: SELinux takes it out (man 2 recvmsg, MSG_CTRUNC).
var ErrTooLong = errors.New("a packet was cut off: it is too long, or a descriptor in it may not be received")

// Receive waits for a packet, until the deadline; the zero time is none. The error is io.EOF
// when the other end is closed. The caller closes the files.
func (s *Socket) Receive(deadline time.Time) (packet []byte, files []*os.File, err error) {
	buffer, rights := make([]byte, Max), make([]byte, unix.CmsgSpace(4*mostFiles))
	r, err := s.receive(deadline, buffer, rights, 0)
	return r.parse(buffer, rights, err)
}

// The four that follow are for who must never have a descriptor open that somebody else has
// chosen: close(2) of a file on a FUSE file system waits for its server (FUSE_FLUSH), so that who
// has one can be kept waiting for ever. Where there is no room for them, the kernel opens no
// descriptors, and so there is none to close (net/core/scm.c, scm_detach_fds).

// Peek waits for a packet, until the deadline, and returns its text, and whether descriptors come
// with it. It opens none of them, and leaves the packet where it is: for PeekFiles, for Skip, or,
// after the death of this process, for the next one that has the socket.
func (s *Socket) Peek(deadline time.Time) (packet []byte, withFiles bool, err error) {
	buffer := make([]byte, Max)
	r, err := s.receive(deadline, buffer, nil, unix.MSG_PEEK)
	switch {
	case err != nil:
		return nil, false, err
	case r.flags&unix.MSG_TRUNC != 0:
		err = ErrTooLong
	case r.text == 0:
		err = io.EOF
	}
	return buffer[:r.text], r.flags&unix.MSG_CTRUNC != 0, err
}

// PeekFrom is Peek of a socket with SO_PASSCRED (man 7 unix), and returns the number of the process
// that has sent the packet, as the kernel says.
func (s *Socket) PeekFrom(deadline time.Time) (packet []byte, pid int, err error) {
	buffer, from := make([]byte, Max), make([]byte, unix.CmsgSpace(unix.SizeofUcred))
	r, err := s.receive(deadline, buffer, from, unix.MSG_PEEK)
	if err != nil {
		return nil, 0, err
	}
	messages, err := unix.ParseSocketControlMessage(from[:r.rights])
	if err != nil || len(messages) != 1 {
		return nil, 0, errors.New("the kernel does not say who has sent a packet")
	}
	sender, err := unix.ParseUnixCredentials(&messages[0])
	if err != nil {
		return nil, 0, err
	}
	return buffer[:r.text], int(sender.Pid), nil
}

// PeekFiles opens the descriptors of the packet that Peek has returned: so many at most. There are
// more if it says so. They stay in the packet, too. To close them may take for ever.
func (s *Socket) PeekFiles(most int) (files []*os.File, more bool, err error) {
	rights := make([]byte, unix.CmsgLen(4*most)) // and no space for another one
	r, err := s.receive(time.Now(), make([]byte, 1), rights, unix.MSG_PEEK)
	if err != nil {
		return nil, false, err
	}
	files, err = parse(rights[:r.rights])
	return files, r.flags&unix.MSG_CTRUNC != 0, err
}

// Skip takes the packet that Peek has returned, and opens none of its descriptors.
func (s *Socket) Skip() error {
	_, err := s.receive(time.Time{}, make([]byte, 1), nil, 0)
	return err
}

// received is what recvmsg(2) has: lengths, in bytes, and flags.
type received struct{ text, rights, flags int }

func (s *Socket) receive(deadline time.Time, buffer, rights []byte, flags int) (r received, err error) {
	_ = s.conn.SetReadDeadline(deadline)
	read := func(fd uintptr) bool {
		r, err = receive(int(fd), buffer, rights, flags)
		return err != unix.EAGAIN
	}
	readErr := s.raw.Read(read)
	if errors.Is(readErr, os.ErrDeadlineExceeded) {
		// It may have come while this process had no processor.
		_ = s.raw.Control(func(fd uintptr) {
			if read(fd) {
				readErr = nil
			}
		})
	}
	if readErr != nil {
		return received{}, readErr
	}
	return r, os.NewSyscallError("recvmsg", err)
}

// receive reads a packet if there is one. EAGAIN: there is none.
func receive(fd int, buffer, rights []byte, flags int) (r received, err error) {
	for {
		r.text, r.rights, r.flags, _, err = unix.Recvmsg(fd, buffer, rights, flags|unix.MSG_DONTWAIT|unix.MSG_CMSG_CLOEXEC)
		if err != unix.EINTR {
			return r, err
		}
	}
}

// parse returns what was received, unless there is an error.
func (r received) parse(buffer, rights []byte, err error) (packet []byte, files []*os.File, _ error) {
	if err != nil {
		return nil, nil, err
	}
	if files, err = parse(rights[:r.rights]); err != nil {
		return nil, nil, err
	}
	switch {
	case r.flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0:
		err = ErrTooLong
	case r.text == 0:
		err = io.EOF
	}
	if err != nil {
		Close(files)
		return nil, nil, err
	}
	return buffer[:r.text], files, nil
}

func parse(rights []byte) (files []*os.File, err error) {
	messages, err := unix.ParseSocketControlMessage(rights)
	if err != nil {
		return nil, os.NewSyscallError("parse the descriptors", err)
	}
	for _, message := range messages {
		numbers, err := unix.ParseUnixRights(&message)
		if err != nil {
			continue // something else than descriptors
		}
		for _, number := range numbers {
			files = append(files, os.NewFile(uintptr(number), "received"))
		}
	}
	return files, nil
}

// Encode returns a packet.
func Encode(message any) ([]byte, error) {
	packet, err := json.Marshal(message)
	if err == nil && len(packet) > Max {
		err = fmt.Errorf("a message of %d bytes is too long", len(packet))
	}
	return packet, err
}

// HasEnded tells whether an error says that the other end was closed, as when its process has
// ended.
func HasEnded(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, unix.ECONNRESET) || errors.Is(err, unix.EPIPE)
}

// TimedOut tells whether an error says that a limit or a deadline was over.
func TimedOut(err error) bool {
	timeout, is := errors.AsType[net.Error](err)
	return is && timeout.Timeout()
}

// Decode reads a packet's JSON. An unknown field is a later version's.
func Decode(packet []byte, into any) error {
	if err := json.Unmarshal(packet, into); err != nil {
		return fmt.Errorf("a packet of %d bytes: %w: %.100q", len(packet), err, packet)
	}
	return nil
}

// Close closes files that nobody asked for.
func Close(files []*os.File) {
	for _, file := range files {
		file.Close()
	}
}

// rightsOf is what sends files with a message (man 7 unix, SCM_RIGHTS); nil: there are none. The
// caller keeps them alive.
func rightsOf(files []*os.File) ([]byte, error) {
	if len(files) == 0 {
		return nil, nil
	}
	numbers := make([]int, len(files))
	for i, file := range files {
		var err error
		if numbers[i], err = Number(file); err != nil {
			return nil, err
		}
	}
	return unix.UnixRights(numbers...), nil
}

// Number is a file's descriptor. Unlike its method Fd, it does not make the open file blocking,
// for all who have it. The caller keeps the file alive.
func Number(file *os.File) (number int, err error) {
	raw, err := file.SyscallConn()
	if err == nil {
		err = raw.Control(func(fd uintptr) { number = int(fd) })
	}
	return number, err
}
