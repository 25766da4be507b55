package pod

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/podfuse/wire"
)

const (
	// patience is how long the driver is asked again when it does not answer: it may be on its
	// way, or be upgraded. After it, the kubelet's own back-off is better.
	patience = 30 * time.Second
	// unmountPatience is shorter: the program wants to end, and the driver unmounts it then.
	unmountPatience = 3 * time.Second
	// answerLimit is for one answer. The driver needs milliseconds, and a program's container
	// that is slow to enter needs seconds.
	answerLimit = 15 * time.Second
	// quiet is how long an outage is not worth a line: an upgrade takes less.
	quiet = time.Second

	firstPause, mostPause = 5 * time.Millisecond, 500 * time.Millisecond
)

// refusal is an Answer's Error.
type refusal struct {
	text  string
	again bool
}

func (r refusal) Error() string { return r.text }

// ask sends a request until it is answered, for as long as a limit. Of Serve, it returns the
// descriptor of /dev/fuse, which is blocking and closed on exec; else -1. An error of the driver is
// a [refusal]. It tells say what it waits for, once.
func (s server) ask(r wire.Request, limit time.Duration, say func(format string, args ...any)) (wire.Answer, int, error) {
	r.Format, r.Server = wire.Format, s.id
	packet, err := wire.Encode(r)
	if err != nil {
		return wire.Answer{}, -1, err
	}
	deadline := time.Now().Add(limit)
	said := false
	for pause := firstPause; ; pause = min(2*pause, mostPause) {
		answer, device, err := s.askOnce(packet, min(answerLimit, time.Until(deadline)))
		if err == nil && answer.Error != "" {
			err = refusal{answer.Error, answer.Again}
		}
		if err == nil && r.Kind == wire.Serve && device == -1 {
			err = errors.New("the driver sent no descriptor of /dev/fuse")
		}
		if err == nil {
			return answer, device, nil
		}
		closeAll(device)
		refused, isRefusal := errors.AsType[refusal](err)
		if isRefusal && !refused.again {
			return wire.Answer{}, -1, err
		}
		if time.Until(deadline) <= pause {
			if !isRefusal {
				err = fmt.Errorf("%w; is the driver running on this node?", err)
			}
			return wire.Answer{}, -1, err
		}
		if left := time.Until(deadline); !said && limit-left >= quiet {
			said = true
			say("%v; asking again for %v", err, left.Round(time.Second))
		}
		time.Sleep(pause)
	}
}

// askOnce sends a packet, and waits for the answer.
func (s server) askOnce(packet []byte, limit time.Duration) (answer wire.Answer, device int, err error) {
	// A path of a socket has at most 107 bytes, and that of a mount any number.
	dir, err := os.OpenFile(s.dir, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return wire.Answer{}, -1, err
	}
	defer dir.Close()
	path := fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), wire.Socket)
	socket, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Net: "unixpacket", Name: path})
	if err != nil {
		return wire.Answer{}, -1, s.failed("connect to", err)
	}
	defer socket.Close()
	_ = socket.SetDeadline(time.Now().Add(limit))
	if _, err := socket.Write(packet); err != nil {
		return wire.Answer{}, -1, s.failed("write to", err)
	}
	reply, control := make([]byte, wire.MaxPacket), make([]byte, unix.CmsgSpace(4*maxRights))
	n, oob, flags, _, err := socket.ReadMsgUnix(reply, control)
	device, rightsErr := oneDescriptor(control[:oob])
	switch {
	case errors.Is(err, io.EOF):
		err = errors.New("it has ended the connection")
	case err != nil:
	case rightsErr != nil:
		err = rightsErr
	case flags&(unix.MSG_TRUNC|unix.MSG_CTRUNC) != 0:
		err = errors.New("the answer was cut off")
	default:
		err = json.Unmarshal(reply[:n], &answer)
	}
	if err == nil && device != -1 {
		err = unix.SetNonblock(device, false) // programs wait in read(2)
	}
	if err != nil {
		closeAll(device)
		return wire.Answer{}, -1, s.failed("read from", err)
	}
	return answer, device, nil
}

// failed says what could not be done with the socket, by the path that the user knows.
func (s server) failed(what string, err error) error {
	if wrapped, ok := errors.AsType[*net.OpError](err); ok {
		err = wrapped.Err
	}
	if wrapped, ok := errors.AsType[*os.SyscallError](err); ok {
		err = wrapped.Err
	}
	return fmt.Errorf("%s %s: %w", what, filepath.Join(s.dir, wire.Socket), err)
}

// maxRights is how many descriptors of one packet are taken, to be closed: one is expected.
const maxRights = 16

// oneDescriptor returns that of a control message, or -1, and closes all if there are more.
func oneDescriptor(control []byte) (int, error) {
	messages, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return -1, err
	}
	var all []int
	for _, message := range messages {
		if some, err := unix.ParseUnixRights(&message); err == nil {
			all = append(all, some...)
		}
	}
	switch len(all) {
	case 0:
		return -1, nil
	case 1:
		return all[0], nil
	}
	closeAll(all...)
	return -1, fmt.Errorf("it sent %d descriptors", len(all))
}

func closeAll(descriptors ...int) {
	for _, fd := range descriptors {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
	}
}
