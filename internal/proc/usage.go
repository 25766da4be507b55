package proc

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"
)

// Usage is what a process uses.
type Usage struct {
	ResidentMemory uint64 // bytes
	CPUTime        time.Duration
	OpenFiles      uint64 // descriptors; 0 before Linux 6.2, which would have to list them
}

// UsageOf asks the kernel what a process uses. The cost does not depend on the process, and it
// needs no capability.
func UsageOf(pid int) (Usage, error) {
	return Ask(pid, func() (u Usage, err error) {
		directory := "/proc/" + strconv.Itoa(pid)
		text, err := Read(directory+"/stat", nil, 4<<10)
		if err != nil {
			return u, err
		}
		// Numbers of fields in man 5 proc_pid_stat, after the command's name, which may have
		// anything in it.
		const state, utime, stime, rss = 3, 14, 15, 24
		const tick = time.Second / 100 // include/asm-generic/param.h, USER_HZ
		fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
		if len(fields) <= rss-state {
			return u, fmt.Errorf("%s/stat has %d fields after the command", directory, len(fields))
		}
		number := func(field int) uint64 {
			n, parseErr := strconv.ParseUint(string(fields[field-state]), 10, 63)
			err = errors.Join(err, parseErr)
			return n
		}
		u.ResidentMemory = number(rss) * uint64(os.Getpagesize())
		u.CPUTime = time.Duration(number(utime)+number(stime)) * tick
		if err != nil {
			return u, fmt.Errorf("%s/stat: %w", directory, err)
		}
		info, err := os.Stat(directory + "/fd")
		if err != nil {
			return u, err
		}
		u.OpenFiles = uint64(info.Size())
		return u, nil
	})
}
