package mounter

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"os/signal"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/internal/packet"
	"example.com/pod-info-fuse/podfuse/wire"
)

// A program that serves, and then has its descriptor where kcmp(2) does not look, counts as dead.
// Nobody else's does, and another program can serve the volume.
func TestAHiddenDescriptorHarmsItsOwnVolumeOnly(t *testing.T) {
	t.Parallel()
	for hide := range hides {
		t.Run(hide, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, "LATE=1") // it is noticed when it is looked again
			const otherUID = "99999999-2222-3333-4444-555555555555"
			otherData, otherServer := w.mount("data", otherUID)
			other := w.container(containerOptions{Client: otherData.ID(), Server: otherServer.ID()})
			beside := other.serve(launchOptions{Server: otherServer.ID(), Text: "beside"})
			c := w.container(containerOptions{})
			hidden := c.serve(launchOptions{Hide: hide})
			if died := w.event(wire.Died); died.Generation != hidden || len(died.files) != 1 {
				t.Fatalf("died: %+v", died)
			}
			two := c.serve(launchOptions{Text: "two"})
			if problem := w.attach(two, c.pid); problem != "" {
				t.Fatal(problem)
			}
			if text, err := c.read("/data/text"); text != "two" {
				t.Errorf("%q, %v", text, err)
			}
			ticket := w.order(wire.Order{Kind: wire.Attach, Volume: otherData.ID(), Generation: beside, PID: other.pid})
			if problem := w.answered(ticket, "attach").Error; problem != "" {
				t.Fatal(problem)
			}
			if text, err := other.read("/data/text"); text != "beside" {
				t.Errorf("another pod's: %q, %v", text, err)
			}
			if got := len(c.programs("program")); got != 2 {
				t.Errorf("%d programs live, not the hidden one and the other", got)
			}
		})
	}
}

// What the pair reads from a dead connection is its own: a program that was hidden, and comes back,
// cannot have the pair wait, and with it all other pods.
func TestWhoHidesDoesNotChangeWhatThePairReads(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "LATE=1") // the first look may find the program before it hides
	c := w.container(containerOptions{})
	hidden := c.serve(launchOptions{Hide: "a message that it takes back"})
	died := w.died(hidden)
	if len(died.files) != 1 {
		t.Fatalf("died: %+v", died)
	}
	number, err := packet.Number(died.files[0])
	must(t, err)
	must(t, unix.SetNonblock(number, true)) // as the pair does
	program := c.programs("program")[0]
	must(t, unix.Kill(program, unix.SIGUSR1))
	eventually(t, "it has cleared O_NONBLOCK", func() bool {
		stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", program))
		return bytes.Contains(stat, []byte(") T "))
	})
	if flags, err := unix.FcntlInt(uintptr(number), unix.F_GETFL, 0); err != nil || flags&unix.O_NONBLOCK == 0 {
		t.Errorf("what the pair was given has flags %#x, %v", flags, err)
	}
	died.files[0].Close()
}

// hides are where a descriptor can be besides a process's table.
var hides = map[string]func(device int) error{
	"a message": func(device int) error {
		pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM, 0)
		if err != nil {
			return err
		}
		return unix.Sendmsg(pair[0], []byte("x"), unix.UnixRights(device), nil, 0)
	},
	"a message that it takes back": func(device int) error {
		pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_DGRAM, 0)
		if err != nil {
			return err
		}
		told := make(chan os.Signal, 1)
		signal.Notify(told, unix.SIGUSR1)
		go func() {
			<-told
			rights := make([]byte, unix.CmsgSpace(4))
			_, n, _, _, err := unix.Recvmsg(pair[1], nil, rights, 0)
			if err != nil {
				return
			}
			messages, err := unix.ParseSocketControlMessage(rights[:n])
			if err != nil {
				return
			}
			if files, err := unix.ParseUnixRights(&messages[0]); err == nil && unix.SetNonblock(files[0], false) == nil {
				_ = unix.Kill(os.Getpid(), unix.SIGSTOP)
			}
		}()
		return unix.Sendmsg(pair[0], []byte("x"), unix.UnixRights(device), nil, 0)
	},
	"an io_uring": func(device int) error { // io_uring_setup(2), io_uring_register(2)
		var params [120]byte // struct io_uring_params
		ring, _, errno := unix.Syscall(unix.SYS_IO_URING_SETUP, 1, uintptr(unsafe.Pointer(&params)), 0)
		if errno != 0 {
			return os.NewSyscallError("io_uring_setup", errno)
		}
		const registerFiles = 2
		files := [1]int32{int32(device)}
		if _, _, errno = unix.Syscall6(unix.SYS_IO_URING_REGISTER, ring, registerFiles, uintptr(unsafe.Pointer(&files)), 1, 0, 0); errno != 0 {
			return os.NewSyscallError("io_uring_register", errno)
		}
		return nil
	},
}

// serveAndHide answers FUSE_INIT on descriptor 3, and hides it.
func serveAndHide(hide string) error {
	const device, opInit = 3, 26 // linux/fuse.h
	request := make([]byte, 1<<20)
	for {
		n, err := unix.Read(device, request)
		if err != nil {
			return fmt.Errorf("read a request: %w", err)
		}
		op, id := binary.NativeEndian.Uint32(request[4:]), binary.NativeEndian.Uint64(request[8:n])
		reply := binary.NativeEndian.AppendUint32(nil, 0) // the length, below
		var status int32
		if op != opInit {
			status = -int32(unix.ENOSYS)
		}
		reply = binary.NativeEndian.AppendUint32(reply, uint32(status))
		reply = binary.NativeEndian.AppendUint64(reply, id)
		if op == opInit { // struct fuse_init_out
			for _, field := range []uint32{7, 31, 0, 0, 0, 4096} {
				reply = binary.NativeEndian.AppendUint32(reply, field)
			}
			reply = append(reply, make([]byte, 40)...)
		}
		binary.NativeEndian.PutUint32(reply, uint32(len(reply)))
		if _, err := unix.Write(device, reply); err != nil {
			return fmt.Errorf("answer request %d: %w", op, err)
		}
		if op == opInit {
			break
		}
	}
	if err := hides[hide](device); err != nil {
		return err
	}
	if err := unix.Close(device); err != nil {
		return err
	}
	time.Sleep(time.Hour)
	return nil
}
