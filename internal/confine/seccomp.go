package confine

import (
	"bytes"
	"embed"
	"encoding/binary"
	"errors"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

//go:generate go run ./genfilter

// filters are the programs that genfilter has assembled, ARCHITECTURE.NAME each: instructions of
// [unix.SockFilter]. What they allow, genfilter/policy.go says.
//
//go:embed filters
var filters embed.FS

// ToMounting leaves to this process, which may be root's, the system calls of one that mounts for
// others, and to all that it starts. They must not call it again: filters pile up.
func ToMounting() error { return install("mounting") }

// install installs a filter in all threads.
func install(name string) error {
	text, err := filters.ReadFile("filters/" + runtime.GOARCH + "." + name)
	if err != nil { // the library of genfilter has no tables of system calls for it
		return errors.New("there is no filter for " + runtime.GOARCH)
	}
	program := make([]unix.SockFilter, len(text)/int(unsafe.Sizeof(unix.SockFilter{})))
	if err := binary.Read(bytes.NewReader(text), binary.LittleEndian, program); err != nil {
		return err
	}
	prog := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&prog)))
	runtime.KeepAlive(program)
	if errno != 0 {
		return os.NewSyscallError("install the filter", errno)
	}
	return nil
}
