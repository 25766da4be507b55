package fs_test

import (
	endian "encoding/binary"
	"errors"
	"os"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/internal/testnode"
)

// A container with CAP_DAC_READ_SEARCH may open files by their numbers. The root's is known
// to everybody, and it lists all volumes of the node.
func TestTheRootCannotBeOpenedByItsNumber(t *testing.T) {
	if testnode.KernelBefore(t, 6, 9) {
		t.Skip("FUSE_NO_EXPORT_SUPPORT is of Linux 6.9")
	}
	volume, err := os.Open(testnode.Install(t).Mount())
	if err != nil {
		t.Fatal(err)
	}
	defer volume.Close()
	// fs/fuse/inode.c, fuse_encode_fh: the halves of the node's number, the upper one
	// first, and the generation. The type is FILEID_INO64_GEN.
	var root [12]byte
	endian.NativeEndian.PutUint32(root[4:], 1)
	fd, err := unix.OpenByHandleAt(int(volume.Fd()), unix.NewFileHandle(0x81, root[:]), unix.O_RDONLY)
	if err == nil {
		names, _ := os.ReadDir("/proc/self/fd/" + strconv.Itoa(fd))
		t.Errorf("the root is open, and lists %v", names)
		unix.Close(fd)
	} else if !errors.Is(err, unix.ESTALE) && !errors.Is(err, unix.EOPNOTSUPP) {
		t.Errorf("open_by_handle_at: %v, want ESTALE or EOPNOTSUPP", err)
	}
}
