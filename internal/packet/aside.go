package packet

import (
	"bytes"
	"fmt"
	"io"
	"sync"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/internal/proc"
)

// The last close(2) of a socket closes the descriptors that wait in it, and takes as long as these.
// A TCP socket with SO_LINGER takes as long as its owner has said (man 7 socket). So does
// recvmsg(2) that has no room for descriptors. From Linux 6.16, a socket can refuse them
// (SO_PASSRIGHTS).
//
// A thread that ends waits for no such socket (net/ipv4/af_inet.c, inet_release: PF_EXITING).

// aside is held while a file is closed aside, which takes a thread.
var aside sync.Mutex

// CloseAside closes a file that may be a socket in which somebody has left descriptors. A thread
// copies the table of descriptors, and ends when this process has closed the file in its own table:
// so the last close is that of a thread which ends.
func CloseAside(file io.Closer) {
	aside.Lock()
	defer aside.Unlock()
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

// End closes this duplicate of a connection, and does not wait for descriptors that the other end
// has left in it. From then on, the other end can send nothing, also where somebody has another
// duplicate. It can receive as before.
//
// If a packet is left in the last duplicate, the other end gets ECONNRESET, once, and before what
// it has not yet received (net/unix/af_unix.c, unix_release_sock).
func (s *Socket) End() {
	left := true
	err := s.Control(func(fd int) {
		if unix.Shutdown(fd, unix.SHUT_RD) == nil {
			left = hasFiles(fd)
		}
	})
	if err != nil {
		return // it is closed
	}
	if left {
		CloseAside(s.conn)
	} else {
		s.conn.Close() // a thread would take ten times as long
	}
}

// hasFiles tells whether descriptors wait in a socket. It also says so where that cannot be read:
// before Linux 5.14, only root may read fdinfo of a process that is not dumpable.
func hasFiles(fd int) bool {
	text, err := proc.Read(fmt.Sprintf("/proc/self/fdinfo/%d", fd), nil, 4096)
	return err != nil || !bytes.Contains(text, []byte("\nscm_fds: 0\n"))
}
