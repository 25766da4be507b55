//go:build strict

package confine

import "golang.org/x/sys/unix"

// onDenial ends the process, so that a test cannot miss that something was denied
// which serving needs.
const onDenial = unix.SECCOMP_RET_KILL_PROCESS
