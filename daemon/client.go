package daemon

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// ErrSilent says that the active process does not answer.
var ErrSilent = errors.New("the active process does not answer")

// Ask asks the active process for its report. It waits no longer than a
// second.
func Ask(socket string) (*Report, error) {
	var answer reply
	err := retry(func() error {
		conn, err := dial(socket, time.Second)
		if err != nil {
			return err
		}
		defer conn.Close()
		answer, _, err = exchange(conn, command{Command: commandStatus})
		return err
	})
	if err == nil && answer.Report == nil {
		err = errors.New(answer.Error)
	}
	return answer.Report, err
}

// Stop asks the pair to end.
func Stop(socket string) error {
	conn, err := dial(socket, 2*time.Second)
	if err != nil {
		return err
	}
	defer conn.Close()
	_, _, err = exchange(conn, command{Command: commandStop})
	return err
}

// Upgrade lets this binary take over from the process that is active, with
// arguments for its command. settle is called with the new process before it starts
// to serve, to move it to where it shall stay. Its log is a new one, because the
// configuration may have changed. An error means that the old process goes on.
func Upgrade(socket string, args []string, version string, log *os.File, settle func(pid int)) error {
	conn, err := dial(socket, clientTime)
	if err != nil {
		return err
	}
	defer conn.Close()
	answer, descriptors, err := exchange(conn, command{Command: commandUpgrade, Version: version})
	files := newFiles(descriptors)
	defer closeAll(files)
	switch {
	case err != nil:
		return err
	case answer.Error != "":
		return errors.New(answer.Error)
	case len(files) != 4:
		return fmt.Errorf("upgrade: got %d descriptors, want 4", len(files))
	}
	process, err := start(args, Resources{Device: descriptors[1], Lock: files[2], Control: files[3], Log: log}, files[0])
	files[0].Close() // so that its death ends the link
	if err != nil {
		return fmt.Errorf("start the new version: %w", err)
	}
	settle(process.Pid)
	answer, _, err = exchange(conn, command{Command: commandProceed})
	if err == nil && answer.Error != "" {
		err = errors.New(answer.Error)
	}
	if err != nil {
		_ = process.Kill()
		_, _ = process.Wait()
		return err
	}
	return process.Release()
}

// dial connects to the control socket, for an exchange within a limit.
func dial(socket string, limit time.Duration) (*net.UnixConn, error) {
	conn, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: socket, Net: "unixpacket"})
	if err != nil {
		return nil, err
	}
	return conn, conn.SetDeadline(time.Now().Add(limit))
}

// exchange sends a command and returns the reply and the descriptors in it.
func exchange(conn *net.UnixConn, c command) (answer reply, descriptors []int, err error) {
	packet, err := json.Marshal(c)
	if err != nil {
		return answer, nil, err
	}
	if _, err := conn.Write(packet); err != nil {
		return answer, nil, err
	}
	buffer, rights := make([]byte, maxMessage), make([]byte, unix.CmsgSpace(4*8))
	n, rightsLength, _, _, err := conn.ReadMsgUnix(buffer, rights)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return answer, nil, ErrSilent
	} else if err == nil && n == 0 {
		err = io.EOF
	}
	if err != nil {
		return answer, nil, err
	}
	messages, err := unix.ParseSocketControlMessage(rights[:rightsLength])
	if err != nil {
		return answer, nil, err
	}
	for _, m := range messages {
		if fds, err := unix.ParseUnixRights(&m); err == nil {
			descriptors = append(descriptors, fds...)
		}
	}
	return answer, descriptors, json.Unmarshal(buffer[:n], &answer)
}

// retry repeats what fails because the active process changed meanwhile.
func retry(f func() error) (err error) {
	for range 20 {
		err = f()
		if err == nil || errors.Is(err, ErrSilent) || !changed(err) {
			return err
		}
		time.Sleep(5 * time.Millisecond)
	}
	return err
}

func changed(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, unix.ECONNRESET) || errors.Is(err, unix.EPIPE)
}

func newFiles(descriptors []int) (files []*os.File) {
	for _, fd := range descriptors {
		unix.CloseOnExec(fd)
		files = append(files, os.NewFile(uintptr(fd), "received"))
	}
	return files
}

func closeAll(files []*os.File) {
	for _, file := range files {
		file.Close()
	}
}
