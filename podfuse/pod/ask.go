package pod

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/internal/packet"
	"example.com/pod-info-fuse/podfuse/wire"
)

const (
	// askTimeout is how long the driver is asked again when it does not answer: it may be on its
	// way, or be upgraded. After it, the kubelet's own back-off is better.
	askTimeout = 30 * time.Second
	// unmountTimeout is shorter: the program wants to end, and the driver unmounts it then.
	unmountTimeout = 3 * time.Second
	// answerTimeout is for one answer. The driver needs milliseconds, and a program's container
	// that is slow to enter needs seconds.
	answerTimeout = 15 * time.Second
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
// descriptor of /dev/fuse, which is blocking and closed on exec; else nil. An error of the driver
// is a [refusal]. It tells say what it waits for, once.
func (s server) ask(r wire.Request, limit time.Duration, say func(format string, args ...any)) (wire.Answer, *os.File, error) {
	r.Format, r.Server = wire.Format, s.id
	if _, err := packet.Encode(r); err != nil {
		return wire.Answer{}, nil, err
	}
	deadline := time.Now().Add(limit)
	said := false
	for pause := firstPause; ; pause = min(2*pause, mostPause) {
		answer, device, err := s.askOnce(r, min(answerTimeout, time.Until(deadline)))
		if err == nil && answer.Error != "" {
			err = refusal{answer.Error + s.doubt, answer.Again}
		}
		if err == nil && r.Kind == wire.Serve && device == nil {
			err = errors.New("the driver sent no descriptor of /dev/fuse")
		}
		if err == nil {
			return answer, device, nil
		}
		if device != nil {
			device.Close()
		}
		refused, isRefusal := errors.AsType[refusal](err)
		if isRefusal && !refused.again {
			return wire.Answer{}, nil, err
		}
		if time.Until(deadline) <= pause {
			if !isRefusal {
				err = fmt.Errorf("%w; is the driver running on this node?", err)
			}
			return wire.Answer{}, nil, err
		}
		if left := time.Until(deadline); !said && limit-left >= quiet {
			said = true
			say("%v; asking again for %v", err, left.Round(time.Second))
		}
		time.Sleep(pause)
	}
}

// askOnce sends a request, and waits for the answer.
func (s server) askOnce(r wire.Request, limit time.Duration) (answer wire.Answer, device *os.File, err error) {
	// A path of a socket has at most 107 bytes, and that of a mount any number.
	dir, err := os.OpenFile(s.dir, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return wire.Answer{}, nil, err
	}
	defer dir.Close()
	path := fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), wire.Socket)
	deadline := time.Now().Add(limit)
	socket, err := packet.Dial(path, deadline)
	if err != nil {
		return wire.Answer{}, nil, s.failed("connect to", err)
	}
	defer socket.Close()
	if err := socket.Send(limit, r); err != nil {
		return wire.Answer{}, nil, s.failed("write to", err)
	}
	text, files, err := socket.Receive(deadline)
	switch {
	case errors.Is(err, io.EOF):
		err = errors.New("it has ended the connection")
	case err != nil:
	case len(files) > 1:
		err = fmt.Errorf("it sent %d descriptors", len(files))
	default:
		err = packet.Decode(text, &answer)
	}
	if err == nil && len(files) > 0 {
		device = files[0]
		err = unix.SetNonblock(int(device.Fd()), false) // programs wait in read(2)
	}
	if err != nil {
		packet.Close(files)
		return wire.Answer{}, nil, s.failed("read from", err)
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
