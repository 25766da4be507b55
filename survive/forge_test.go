package survive_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/internal/testnode"
)

// forger is a process in a mount namespace of its own, where it mounts file systems that
// look like ours. It is this test's binary, executed again.
type forger struct {
	*testnode.Process
	root string // a directory that is mounted in its namespace only
}

const forgerVariable = "POD_INFO_FUSE_FORGER"

// startForger starts one, which sees the volume as a container does, as root/volume. With
// users, it is in a user namespace of its own, too, as everybody may be, and its root a
// tmpfs. Without, it has CAP_SYS_ADMIN, and root is a FUSE file system of its own: others
// may not look into one that was mounted in a user namespace (fs/fuse/dir.c,
// fuse_allow_current_process).
func startForger(t *testing.T, volume string, users bool) forger {
	t.Helper()
	root := t.TempDir()
	command := exec.Command("/proc/self/exe")
	command.Env = append(os.Environ(), forgerVariable+"="+root, "VOLUME="+volume, fmt.Sprintf("USERS=%v", users))
	command.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	if users { // whoever is root in a container is so outside
		ids := []syscall.SysProcIDMap{{ContainerID: 0, HostID: 0, Size: 65536}}
		command.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS, UidMappings: ids, GidMappings: ids}
	}
	return forger{testnode.Started(t, command), root}
}

func init() {
	if root := os.Getenv(forgerVariable); root != "" {
		forgerMain(root)
	}
}

// forgerMain is the forger's life.
func forgerMain(root string) {
	stop := func(err error) {
		if err != nil {
			fmt.Fprintln(os.Stderr, "forger:", err)
			os.Exit(1)
		}
	}
	stop(unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
	outer := &forgedFS{RawFileSystem: fuse.NewDefaultRawFileSystem()}
	if os.Getenv("USERS") == "true" {
		stop(unix.Mount("root", root, "tmpfs", 0, ""))
		for _, name := range []string{"volume", "inner", "forged"} {
			stop(os.Mkdir(root+"/"+name, 0o755))
		}
	} else {
		stop(outer.mount(root, "anything", "anything"))
	}
	stop(unix.Mount(os.Getenv("VOLUME"), root+"/volume", "", unix.MS_BIND|unix.MS_REC, ""))
	fmt.Println("ready")
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		switch words[0] {
		case "forge": // SOURCE ROOT: mounts what looks like ours on root/forged
			inner := &forgedFS{RawFileSystem: fuse.NewDefaultRawFileSystem()}
			stop(inner.mount(root+"/inner", words[1], "pod-info-fuse"))
			stop(unix.Mount(root+"/inner"+words[2], root+"/forged", "", unix.MS_BIND, ""))
			fmt.Println("forged")
		case "remove":
			stop(unix.Unmount(root+"/forged", unix.MNT_DETACH))
			stop(unix.Unmount(root+"/inner", unix.MNT_DETACH))
			fmt.Println("removed")
		case "number":
			var stat unix.Statx_t
			stop(unix.Statx(unix.AT_FDCWD, words[1], unix.AT_STATX_DONT_SYNC, unix.STATX_TYPE, &stat))
			fmt.Println(unix.Mkdev(stat.Dev_major, stat.Dev_minor))
		case "hang":
			outer.hangs.Store(true)
			fmt.Println("hangs")
		case "read":
			data, err := os.ReadFile(words[1])
			fmt.Printf("%q %v\n", data, err)
		}
	}
	os.Exit(0)
}

// forgedFS is a tree in which every name is a directory. hangs has it answer nothing more.
type forgedFS struct {
	fuse.RawFileSystem
	hangs atomic.Bool
}

func (f *forgedFS) mount(dir, source, subtype string, options ...string) error {
	server, err := fuse.NewServer(f, dir, &fuse.MountOptions{FsName: source, Name: subtype, AllowOther: true, DirectMountStrict: true, Options: options})
	if err != nil {
		return fmt.Errorf("mount %s: %w", dir, err)
	}
	go server.Serve()
	return server.WaitMount()
}

func (f *forgedFS) Lookup(_ <-chan struct{}, _ *fuse.InHeader, name string, out *fuse.EntryOut) fuse.Status {
	if f.hangs.Load() {
		select {}
	}
	if name == "pod.uid" {
		return fuse.ENOENT
	}
	for _, c := range name {
		out.NodeId = out.NodeId*31 + uint64(c)
	}
	out.NodeId += 2
	out.Mode, out.Nlink = fuse.S_IFDIR|0o755, 2
	return fuse.OK
}

func (f *forgedFS) GetAttr(_ <-chan struct{}, _ *fuse.GetAttrIn, out *fuse.AttrOut) fuse.Status {
	if f.hangs.Load() {
		select {}
	}
	out.Mode, out.Nlink = fuse.S_IFDIR|0o755, 2
	return fuse.OK
}

// rootOf is the part of the node mount that a volume is, as mountinfo shows it.
func rootOf(d testnode.Driver, dir string) string {
	for _, v := range d.Status().Volumes {
		if v.Dir == dir {
			return "/" + v.ID
		}
	}
	d.T.Fatalf("%s is no volume", dir)
	return ""
}

// A process in a user namespace of its own can make a mount that looks like ours, of the
// whole node or of another pod's volume.
func TestNothingIsHealedThatWasNotOurs(t *testing.T) {
	d := testnode.Install(t)
	mine, others := d.Mount(), d.Mount()
	f := startForger(t, mine, true)
	for _, root := range []string{"/", rootOf(d, others)} {
		f.Does("forge %s %s", d.Name, root)
		before := f.Does("number %s/forged", f.root)
		d.KillPair()
		d.Must("init")
		if output, err := d.Command("restore").CombinedOutput(); err != nil {
			t.Errorf("restore: %v: %s", err, output)
		}
		if after := f.Does("number %s/forged", f.root); after != before {
			t.Errorf("what was forged with the root %s is of device %s, not of %s: it was healed", root, after, before)
		}
		if got := f.Does("read %s/forged/pod.uid", f.root); strings.HasPrefix(got, `"`+testnode.PodUID) {
			t.Errorf("it reads %s", got)
		}
		if got := f.Does("read %s/volume/pod.uid", f.root); got != fmt.Sprintf("%q <nil>", testnode.PodUID+"\n") {
			t.Errorf("its own volume reads %s", got)
		}
		f.Does("remove")
	}
}

// The kernel gives the number of a file system that is gone to the next one.
func TestANumberThatIsUsedAgainIsNotOurs(t *testing.T) {
	d := testnode.Install(t)
	mine, others := d.Mount(), d.Mount()
	f := startForger(t, mine, true)
	for range 20 { // others on this machine may be faster
		number := fmt.Sprint(deviceOf(t, mine))
		d.KillPair()
		d.Must("init")
		if !comesNext(t, number) {
			continue
		}
		f.Does("forge %s %s", d.Name, rootOf(d, others))
		if f.Does("number %s/forged", f.root) != number {
			f.Does("remove")
			continue
		}
		d.KillPair()
		d.Must("init")
		if after := f.Does("number %s/forged", f.root); after != number {
			t.Errorf("what was forged is of device %s, not of %s: it was healed", after, number)
		}
		return
	}
	t.Skip("no number was given again: others mount as well")
}

// comesNext takes all numbers below one, which then comes next: the kernel gives the lowest
// that is free.
func comesNext(t *testing.T, number string) bool {
	t.Helper()
	for range 300 {
		dir := t.TempDir()
		if err := unix.Mount("", dir, "tmpfs", 0, ""); err != nil {
			t.Fatal(err)
		}
		if fmt.Sprint(deviceOf(t, dir)) == number {
			return unix.Unmount(dir, 0) == nil
		}
		t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
	}
	return false
}

// Below a file system of a container's own that does not answer, nobody is healed, and
// nobody else has to wait for that.
func TestAContainerThatDoesNotAnswerIsLeftAlone(t *testing.T) {
	d := testnode.Install(t)
	dir := d.Mount()
	f := startForger(t, dir, false)
	container := startContainer(t, dir)
	d.KillPair()
	f.Does("hang")
	output := make(chan string, 1)
	go func() { said, _ := d.Command("restore").CombinedOutput(); output <- string(said) }()
	testnode.Eventually(t, "the volume is healed", func() bool {
		got, err := os.ReadFile(filepath.Join(dir, "pod.uid"))
		return err == nil && string(got) == testnode.PodUID+"\n"
	})
	d.Mount() // while somebody is still in there
	if said := <-output; !strings.Contains(said, fmt.Sprintf("not healed: %s/volume in the container of process %d", f.root, f.PID)) ||
		!strings.Contains(said, "does not answer; the attempt was given up") {
		t.Errorf("restore: %s", said)
	}
	if got := container.read("volume/pod.uid"); got != testnode.PodUID {
		t.Errorf("in another container: %q", got)
	}
	// No second process is spent on it.
	if said, err := d.Command("restore").CombinedOutput(); err == nil || !strings.Contains(string(said), "another healing of its namespace goes on, or does not end") {
		t.Errorf("restore once more: %v: %s", err, said)
	}
}
