package mounter

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/internal/packet"
)

// A process that has very many descriptors does not keep the mounter busy: only the first of them
// are looked at.
func TestManyDescriptors(t *testing.T) {
	const many = 3 * mostDescriptors
	var limit unix.Rlimit
	must(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &limit))
	if limit.Cur < many+100 {
		wider := unix.Rlimit{Cur: many + 100, Max: max(limit.Max, many+100)}
		must(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &wider))
		t.Cleanup(func() { _ = unix.Setrlimit(unix.RLIMIT_NOFILE, &limit) })
	}
	null, err := os.Open(os.DevNull)
	must(t, err)
	defer null.Close()
	var all []*os.File
	defer func() { packet.Close(all) }()
	for range many {
		f, err := duplicate(null)
		must(t, err)
		all = append(all, f)
	}
	pipe, w, err := os.Pipe() // stands for the connection: only kcmp(2) asks
	must(t, err)
	defer pipe.Close()
	defer w.Close()
	c := &connection{file: pipe, gone: make(chan struct{})}
	own := os.Getpid()
	left := mostDescriptorsOfPod
	if fd, err := c.find(own, &left); fd >= 0 || err != nil {
		t.Errorf("the descriptor after all others: found as %d, %v", fd, err)
	}
	if looked := mostDescriptorsOfPod - left; looked != mostDescriptors {
		t.Errorf("%d descriptors were looked at, of about %d", looked, many)
	}
	c.file = all[0]
	if fd, err := c.find(own, &left); fd < 0 || err != nil {
		t.Errorf("one of the first descriptors is not found: %d, %v", fd, err)
	}
}
