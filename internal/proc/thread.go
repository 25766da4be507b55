// Package proc reads the status of a process, and runs functions on threads of their own,
// which may change their namespace or user.
package proc

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// OnThread calls a function on a thread that ends with it, and waits. It is never the process's
// first thread: Go does not end that one, and /proc/self and kill(2) take it for the process.
func OnThread(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlocked: the thread is not used again
		if unix.Gettid() != unix.Getpid() {
			f()
			return
		}
		OnThread(f) // on another thread, while this goroutine has the first one
		runtime.UnlockOSThread()
	}()
	<-done
}
