package proc

import "time"

// monitorInterval bounds how long a hang lasts that KeepMonitorAwake ends.
const monitorInterval = 200 * time.Millisecond

// KeepMonitorAwake has the runtime's monitor wake again and again, for as long as this process
// lives. It is called before anything else in a process for which others wait.
//
// In Go 1.26, a goroutine that begins a system call while all goroutines are to be stopped can be
// taken for one that runs (runtime/proc.go, reentersyscall). The others stand still until the call
// returns, or until the monitor sees where it is, and that may sleep for a minute. The collector
// stops all, and so does a system call in all threads: of the daemon's starts, one in some
// thousands hung. The monitor wakes for any timer that runs out.
func KeepMonitorAwake() {
	go func() {
		for range time.Tick(monitorInterval) {
		}
	}()
}
