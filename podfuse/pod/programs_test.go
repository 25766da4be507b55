package pod_test

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
)

// programs are what the tests run in containers: this binary, with a name as first argument.
var programs = map[string]func(args []string) error{
	"library": library,
	"serve":   serve,
	"signals": signals,
	"orphans": orphans,
}

// serve is a FUSE program on go-fuse: it serves the file "pid", which has its PID, until SIGTERM.
func serve(args []string) error {
	terminated := make(chan os.Signal, 1) // before anybody knows that it serves
	signal.Notify(terminated, unix.SIGTERM)
	options := &fuse.MountOptions{Name: "served", FsName: "a,b", Options: args[1:]}
	server, err := fuse.NewServer(&pidFile{RawFileSystem: fuse.NewDefaultRawFileSystem()}, args[0], options)
	if err != nil {
		return err
	}
	go server.Serve()
	if err := server.WaitMount(); err != nil {
		return err
	}
	fmt.Println("serving")
	<-terminated
	if args[0][:8] == "/dev/fd/" {
		return nil
	}
	return server.Unmount()
}

type pidFile struct{ fuse.RawFileSystem }

func (f *pidFile) content() []byte { return fmt.Appendln(nil, os.Getpid()) }

func (f *pidFile) attributes(node uint64, attr *fuse.Attr) {
	*attr = fuse.Attr{Ino: node, Mode: fuse.S_IFREG | 0o444, Nlink: 1, Size: uint64(len(f.content()))}
	if node == fuse.FUSE_ROOT_ID {
		*attr = fuse.Attr{Ino: node, Mode: fuse.S_IFDIR | 0o555, Nlink: 2}
	}
}

func (f *pidFile) GetAttr(_ <-chan struct{}, in *fuse.GetAttrIn, out *fuse.AttrOut) fuse.Status {
	f.attributes(in.NodeId, &out.Attr)
	return fuse.OK
}

func (f *pidFile) Lookup(_ <-chan struct{}, _ *fuse.InHeader, name string, out *fuse.EntryOut) fuse.Status {
	if name != "pid" {
		return fuse.ENOENT
	}
	out.NodeId = 2
	f.attributes(2, &out.Attr)
	return fuse.OK
}

func (f *pidFile) Open(_ <-chan struct{}, _ *fuse.OpenIn, out *fuse.OpenOut) fuse.Status {
	out.OpenFlags = fuse.FOPEN_NOFLUSH // a process that the test starts would wait for the program
	return fuse.OK
}

func (f *pidFile) Read(_ <-chan struct{}, in *fuse.ReadIn, _ []byte) (fuse.ReadResult, fuse.Status) {
	content := f.content()
	return fuse.ReadResultData(content[min(int(in.Offset), len(content)):]), fuse.OK
}

// signals prints the signals that it gets, and ends with status 5 at SIGTERM.
func signals([]string) error {
	all := make(chan os.Signal, 16)
	signal.Notify(all)
	fmt.Println("ready")
	for s := range all {
		if s != unix.SIGURG {
			fmt.Printf("got %v\n", s)
		}
		if s == unix.SIGTERM {
			os.Exit(5)
		}
	}
	return nil
}

// orphans starts processes that outlive their parents, and prints what is left of them.
func orphans([]string) error {
	for range 20 {
		if err := exec.Command("/bin/sh", "-c", "sleep 0.05 & exit 0").Run(); err != nil {
			return err
		}
	}
	for end := time.Now().Add(hang); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if processes, _ := count(); processes == 2 {
			break
		}
	}
	processes, dead := count()
	fmt.Printf("%d processes, %d zombies\n", processes, dead)
	return nil
}

// count counts the processes of its PID namespace.
func count() (processes, zombies int) {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range stats {
		text, _ := os.ReadFile(path)
		var pid int
		var name, state string
		if _, _ = fmt.Sscan(string(text), &pid, &name, &state); state == "Z" {
			zombies++
		}
	}
	return len(stats), zombies
}

// library does what a FUSE library does with fusermount, and prints what comes by the socket.
func library(args []string) error {
	kind, how, path, at := args[0], args[1], args[2], args[3]
	types := map[string]int{"stream": unix.SOCK_STREAM, "seqpacket": unix.SOCK_SEQPACKET}
	pair, err := unix.Socketpair(unix.AF_UNIX, types[kind]|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	end := os.NewFile(uintptr(pair[1]), "socket")
	command := exec.Command(path, "-o", "subtype=raw,auto_unmount", "--", at)
	command.Env = []string{"_FUSE_COMMFD=3"}
	if how == "--comm-fd" {
		command.Args = append([]string{path, "--comm-fd=3"}, command.Args[1:]...)
		command.Env = []string{"_FUSE_COMMFD=1"}
	}
	command.Stdout, command.Stderr, command.ExtraFiles = os.Stdout, os.Stderr, []*os.File{end}
	if err := command.Run(); err != nil {
		return err
	}
	end.Close()
	text, control := make([]byte, 8), make([]byte, 64)
	n, oob, _, _, err := unix.Recvmsg(pair[0], text, control, 0)
	if err != nil {
		return err
	}
	messages, err := unix.ParseSocketControlMessage(control[:oob])
	if err != nil || len(messages) != 1 {
		return fmt.Errorf("%d control messages: %w", len(messages), err)
	}
	fds, err := unix.ParseUnixRights(&messages[0])
	if err != nil {
		return err
	}
	target, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fds[0]))
	fmt.Printf("read %v with %d descriptors: %s\n", text[:n], len(fds), target)
	if n, _, _, _, _ := unix.Recvmsg(pair[0], text, control, 0); n == 0 {
		fmt.Println("the end") // and auto_unmount keeps no process
	}
	return err
}
