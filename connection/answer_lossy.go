//go:build lossy

package connection

import (
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// beforeAnswer kills this process when it has read a READ and a file "die" lies
// in the run directory of a driver, which it removes: the window between reading
// a request and answering it is microseconds, and no test would hit it.
func beforeAnswer(request []byte) {
	const opRead = 15
	if opcode(request) != opRead {
		return
	}
	dies, _ := filepath.Glob("/run/pod-info-fuse/*/die")
	for _, die := range dies {
		if os.Remove(die) == nil {
			_ = unix.Kill(os.Getpid(), unix.SIGKILL)
			select {}
		}
	}
}
