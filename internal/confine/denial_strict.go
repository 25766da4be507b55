//go:build strict

package confine

import "golang.org/x/sys/unix"

func init() { onDenial = unix.SECCOMP_RET_KILL_PROCESS }
