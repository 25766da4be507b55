package fs

import (
	"bytes"
	"fmt"
	"strconv"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/volume"
)

// maxContent is enough for every file: a host name has at most 64 bytes, a UID
// 36, a PID 10, a name of an object of Kubernetes 253.
const maxContent = 256

// content appends what the thread that has this id on the host reads in a
// file. ESRCH: the reader is not a process that the file system can name.
func (f *FS) content(buffer []byte, record volume.Record, k kind, thread uint32) ([]byte, error) {
	switch k {
	case podUID:
		buffer = append(buffer, record.PodUID...)
	case podNodename:
		var name unix.Utsname
		if err := unix.Uname(&name); err != nil {
			return buffer, err
		}
		buffer = appendField(buffer, name.Nodename[:])
	case pod:
		process, err := f.threads.group(thread)
		if err != nil {
			return buffer, err
		}
		buffer = strconv.AppendUint(buffer, uint64(process), 10)
	case podName:
		buffer = append(buffer, record.PodName...)
	case podNamespace:
		buffer = append(buffer, record.PodNamespace...)
	case podServiceAccount:
		buffer = append(buffer, record.ServiceAccount...)
	case volumeName:
		buffer = append(buffer, record.Name...)
	case nodeBootID:
		buffer = append(buffer, record.BootID...)
	case nodeKernel, nodeArch:
		var name unix.Utsname
		if err := unix.Uname(&name); err != nil {
			return buffer, err
		}
		field := name.Release[:]
		if k == nodeArch {
			field = name.Machine[:]
		}
		buffer = appendField(buffer, field)
	default:
		return buffer, fmt.Errorf("node of kind %d is not a file", k)
	}
	return append(buffer, '\n'), nil
}

// appendField appends what uname(2) wrote into a field, which ends with a zero.
func appendField(buffer, field []byte) []byte {
	text, _, _ := bytes.Cut(field, []byte{0})
	return append(buffer, text...)
}
