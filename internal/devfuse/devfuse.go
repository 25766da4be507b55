// Package devfuse opens /dev/fuse, reads what the kernel sends by it, and writes errors in answer
// (linux/fuse.h).
package devfuse

import (
	"unsafe"

	"github.com/hanwen/go-fuse/v2/fuse"
)

// The operations (enum fuse_opcode).
const (
	OpLookup          = 1
	OpForget          = 2
	OpGetAttr         = 3
	OpSetAttr         = 4
	OpReadlink        = 5
	OpSymlink         = 6
	OpMknod           = 8
	OpMkdir           = 9
	OpUnlink          = 10
	OpRmdir           = 11
	OpRename          = 12
	OpLink            = 13
	OpOpen            = 14
	OpRead            = 15
	OpWrite           = 16
	OpStatFS          = 17
	OpRelease         = 18
	OpFsync           = 20
	OpSetXAttr        = 21
	OpGetXAttr        = 22
	OpListXAttr       = 23
	OpRemoveXAttr     = 24
	OpFlush           = 25
	OpInit            = 26
	OpOpenDir         = 27
	OpReadDir         = 28
	OpReleaseDir      = 29
	OpFsyncDir        = 30
	OpGetLk           = 31
	OpSetLk           = 32
	OpSetLkw          = 33
	OpAccess          = 34
	OpCreate          = 35
	OpInterrupt       = 36
	OpBmap            = 37
	OpDestroy         = 38
	OpIoctl           = 39
	OpPoll            = 40
	OpNotifyReply     = 41
	OpBatchForget     = 42
	OpFallocate       = 43
	OpReadDirPlus     = 44
	OpRename2         = 45
	OpLseek           = 46
	OpCopyFileRange   = 47
	OpSyncFS          = 50
	OpTmpfile         = 51
	OpStatX           = 52
	OpCopyFileRange64 = 53
)

const changing uint64 = 1<<OpSetAttr | 1<<OpSymlink | 1<<OpMknod | 1<<OpMkdir | 1<<OpUnlink | 1<<OpRmdir | 1<<OpRename |
	1<<OpLink | 1<<OpWrite | 1<<OpSetXAttr | 1<<OpRemoveXAttr | 1<<OpCreate | 1<<OpFallocate | 1<<OpRename2 |
	1<<OpCopyFileRange | 1<<OpTmpfile | 1<<OpCopyFileRange64

// Changes tells whether an operation changes a file system. An open may, too.
func Changes(opcode uint32) bool { return changing>>opcode&1 == 1 }

// Waits tells whether the sender of a request waits for an answer.
func Waits(opcode uint32) bool {
	switch opcode {
	case OpForget, OpBatchForget, OpInterrupt, OpNotifyReply:
		return false
	}
	return true
}

// Header is the header of a request. Of one that is too short, the rest is 0.
func Header(request []byte) (h fuse.InHeader) {
	copy(Bytes(&h), request)
	return h
}

// Message is the message that a packet begins with, nil if it is not whole.
func Message[T any](packet []byte) *T {
	var m T
	if len(packet) < int(unsafe.Sizeof(m)) {
		return nil
	}
	return (*T)(unsafe.Pointer(unsafe.SliceData(packet)))
}

// Bytes is the memory of a message.
func Bytes[T any](message *T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(message)), unsafe.Sizeof(*message))
}

// Error is a reply to a request that consists of an error, or of none.
func Error(id uint64, status fuse.Status) []byte {
	reply := fuse.OutHeader{Status: -int32(status), Unique: id}
	reply.Length = uint32(unsafe.Sizeof(reply))
	return Bytes(&reply)
}
