package connection

import (
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"example.com/pod-info-fuse/survive/volume"
)

// Params hold for a connection's whole life, whatever process serves it: the kernel and the
// first process agreed on them in FUSE_INIT (linux/fuse.h, struct fuse_init_in and
// fuse_init_out), and the driver had chosen the options then.
type Params struct {
	Format       int    `json:"format"` // of what is stored; Encode sets it
	Major        uint32 `json:"major"`
	Minor        uint32 `json:"minor"`
	MaxReadAhead uint32 `json:"maxReadAhead"` // bytes
	Flags        uint64 `json:"flags"`        // FUSE_* that both sides want
	// Marks tells whether the kernel can mark sizes as unknown, and the file system needs it:
	// see marks.go. A process that does not know of it can go on with the connection.
	Marks bool `json:"marks,omitempty"`
	// RequestTimeout is after how many seconds without an answer to a request the kernel aborts the
	// connection; 0: never.
	RequestTimeout int `json:"requestTimeout"`
	Options
}

// kernelTimeout is the RequestTimeout of a connection that begins now (fs/fuse/inode.c,
// init_server_timeout). Later changes of the two sysctls, of Linux 6.15, do not change it.
func kernelTimeout() int {
	read := func(name string) int {
		text, _ := os.ReadFile("/proc/sys/fs/fuse/" + name)
		seconds, _ := strconv.Atoi(strings.TrimSpace(string(text)))
		return seconds
	}
	timeout, most := read("default_request_timeout"), read("max_request_timeout")
	if most > 0 && (timeout == 0 || timeout > most) {
		return most
	}
	return timeout
}

// Options are the choices of a driver.
type Options struct {
	// MaxRead is the largest reply to a read, in bytes; it is also the value for the mount
	// option max_read. From Default's to MostRead.
	MaxRead int `json:"maxRead"`
}

// Default are the options of a read-only file system of small files. Its replies have room
// for the kernel's read-ahead at the first read of a file (mm/readahead.c, get_init_ra_size:
// four pages of 4096 bytes), so that a file of that size comes in one reply. The kernel asks
// for a page at least, which has 64 KiB on some machines.
var Default = Options{MaxRead: max(16<<10, os.Getpagesize())}

// MostRead is the largest MaxRead: the kernel's default for the largest read-ahead (mm.h,
// VM_READAHEAD_PAGES). The buffer of so much that each worker has is locked memory, of which a
// process of the daemon has little; see package confine.
const MostRead = 128 << 10

func (o Options) check() error {
	if o.MaxRead < Default.MaxRead || o.MaxRead > MostRead {
		return fmt.Errorf("the largest read is %d bytes; it must be %d to %d", o.MaxRead, Default.MaxRead, MostRead)
	}
	return nil
}

// HoldTimeout is for how long a Holder can hold a request; 0: for ever. The kernel looks for old
// requests every 15 seconds (fs/fuse/dev.c, fuse_check_timeout), and one third is for machines that
// are busy.
func (p Params) HoldTimeout() time.Duration {
	return time.Duration(p.RequestTimeout) * time.Second * 2 / 3
}

// canResend tells whether the kernel can queue again the requests that a dead server had
// read: since protocol 7.40, of Linux 6.9.
func (p Params) canResend() bool { return p.Minor >= 40 }

// canMark tells whether sizes are marked. Linux has marks since 5.16; before, a mark would make the
// file longer. But no document promises all that marks.go says of them. So protocol 7.37, of Linux
// 6.1, is the first one, and 7.45 the last one. The tests of this package have run on Linux 6.18,
// which has protocol 7.45. Linux 6.19 to 7.2 have it, too. On a later one, opens ask for attributes
// until somebody has run the tests there, and raises the number.
func (p Params) canMark() bool { return 37 <= p.Minor && p.Minor <= 45 }

// paramsFormat is the format of the parameters that this version stores, and the newest that
// it reads.
const paramsFormat = 1

// Encode returns the parameters as they are stored.
func (p Params) Encode() []byte {
	p.Format = paramsFormat
	data, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		panic(err) // numbers can always be encoded
	}
	return data
}

// DecodeParams reads what Encode returned. The error wraps [volume.ErrNewer] if a newer version
// did: it has begun the connection in a way that this one does not know.
func DecodeParams(data []byte) (p Params, err error) {
	p.RequestTimeout = kernelTimeout() // of a connection of a version that did not record it, most likely
	err = volume.Unmarshal(data, &p, &p.Format, paramsFormat)
	switch {
	case err != nil:
	case p.Major != 7:
		err = fmt.Errorf("FUSE protocol %d.%d, need 7.x", p.Major, p.Minor)
	default:
		err = p.check()
	}
	if err != nil {
		return Params{}, fmt.Errorf("connection parameters: %w", err)
	}
	return p, nil
}
