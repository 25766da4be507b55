package proc

import (
	"math"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// CloseOnExec marks every descriptor above 2, also inherited ones that this process does not
// know of, to be closed at execve(2).
func CloseOnExec() error {
	// Linux 5.11
	if err := unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC); err == nil {
		return nil
	}
	names, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return err
	}
	for _, name := range names {
		if fd, err := strconv.Atoi(name.Name()); err == nil && fd > 2 {
			unix.CloseOnExec(fd)
		}
	}
	return nil
}
