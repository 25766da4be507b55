package packet

import (
	"bytes"
	"fmt"
	"io"
	"sync"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/internal/proc"
)

// The last close(2) of a socket closes the descriptors that wait in it, and takes as long as each of these: a
// TCP socket with SO_LINGER (man 7 socket) takes as long as its owner has said. So does recvmsg(2) without room
// for descriptors. From Linux 6.16, a socket can refuse descriptors (SO_PASSRIGHTS).
//
// A thread that ends does not linger (net/ipv4/af_inet.c, inet_release: PF_EXITING).

// asideOnce is held by the one that closes aside: each takes a thread.
var asideOnce sync.Mutex

// CloseAside closes what may be a socket in which somebody has left descriptors. A thread copies the table of
// descriptors and ends after the file is closed here, so that the last close is the thread's.
func CloseAside(file io.Closer) {
	asideOnce.Lock()
	defer asideOnce.Unlock()
	err := proc.OnEndingThread(func() error {
		if err := unix.Unshare(unix.CLONE_FILES); err != nil {
			return err
		}
		closed := make(chan struct{})
		go func() { // on another thread, which has the process's own table
			defer close(closed)
			file.Close()
		}()
		<-closed
		return nil
	})
	if err != nil {
		go file.Close()
	}
}

// End closes this duplicate of a connection, and waits for none of the descriptors that the other end has left in
// it. The other end can leave no more, also where somebody else has another duplicate, and can receive as before.
func (s *Socket) End() {
	left := true
	_ = s.Control(func(fd int) {
		if unix.Shutdown(fd, unix.SHUT_RD) == nil {
			left = hasFiles(fd)
		}
	})
	if left {
		CloseAside(s.conn)
	} else {
		s.conn.Close() // a thread would take ten times as long
	}
}

// hasFiles tells whether descriptors wait in a socket, or that may not be asked: before Linux 5.14, only root may
// look into fdinfo of a process that is not dumpable.
func hasFiles(fd int) bool {
	text, err := proc.Read(fmt.Sprintf("/proc/self/fdinfo/%d", fd), nil, 4096)
	return err != nil || !bytes.Contains(text, []byte("\nscm_fds: 0\n"))
}
