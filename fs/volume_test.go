package fs_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/internal/testnode"
)

func TestAVolumeHasTheFilesOfTheProposal(t *testing.T) {
	dir := testnode.Install(t).Mount()
	hostname, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	self := fmt.Sprintf("%d\n", os.Getpid())
	for name, want := range map[string]string{"pod.uid": testnode.PodUID + "\n", "pod.nodename": hostname + "\n", "pod": self, "pid": self} {
		path := filepath.Join(dir, name)
		if got := testnode.Read(t, path); got != want {
			t.Errorf("%s has %q, want %q", name, got, want)
		}
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if info.Size() != int64(len(want)) {
			t.Errorf("%s: size %d, want %d", name, info.Size(), len(want))
		}
		if info.Mode() != 0o444 {
			t.Errorf("%s: mode %v, want 0444", name, info.Mode())
		}
		if age := time.Since(info.ModTime()); age < -time.Minute || age > time.Minute {
			t.Errorf("%s: changed at %v, which is neither now nor the time of the mount", name, info.ModTime())
		}
		if err := os.WriteFile(path, nil, 0); !errors.Is(err, syscall.EROFS) {
			t.Errorf("writing %s: %v, want EROFS", name, err)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name()+" "+entry.Type().String())
	}
	if got := strings.Join(names, ", "); got != "pid L---------, pod ----------, pod.nodename ----------, pod.uid ----------" {
		t.Errorf("the volume lists %s", got)
	}
	if target, err := os.Readlink(filepath.Join(dir, "pid")); err != nil || target != "pod" {
		t.Errorf("pid links to %q, %v", target, err)
	}
	for _, name := range []string{"nothing", "pod.", "Pod", ".go-fuse-epoll-hack"} {
		if _, err := os.Stat(filepath.Join(dir, name)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: %v, want it not to exist", name, err)
		}
	}
	for _, mutate := range []error{os.Remove(filepath.Join(dir, "pod")), os.Mkdir(filepath.Join(dir, "d"), 0o755), os.Chmod(dir, 0o777)} {
		if !errors.Is(mutate, syscall.EROFS) {
			t.Errorf("got %v, want EROFS", mutate)
		}
	}
}

func TestMountFlagsTrustNothingInTheVolume(t *testing.T) {
	flags := mountFlags(t, testnode.Install(t).Mount())
	for _, flag := range []string{"nosuid", "nodev", "noexec", "allow_other", "default_permissions"} {
		if !strings.Contains(","+flags+",", ","+flag+",") {
			t.Errorf("mount flags %s lack %s", flags, flag)
		}
	}
}

func TestPodIsTheProcessInEachOfItsThreads(t *testing.T) {
	path := filepath.Join(testnode.Install(t).Mount(), "pod")
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			runtime.LockOSThread()
			if unix.Gettid() == os.Getpid() {
				return // the group's leader is the easy case
			}
			for range 50 {
				data, err := os.ReadFile(path)
				if err != nil || string(data) != fmt.Sprintf("%d\n", os.Getpid()) {
					t.Errorf("thread %d of process %d reads %q, %v", unix.Gettid(), os.Getpid(), data, err)
					return
				}
			}
		})
	}
	group.Wait()
}

// Two processes hold the file open and read in turns: each gets its own PID,
// so nothing that one read is kept for the other.
func TestPodIsNeverAnotherReaders(t *testing.T) {
	path := filepath.Join(testnode.Install(t).Mount(), "pod")
	mine, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer mine.Close()
	for range 20 {
		shell := exec.Command("sh", "-c", `read pid < "$1"; echo $pid $$`, "sh", path)
		output, err := shell.Output()
		if fields := strings.Fields(string(output)); err != nil || len(fields) != 2 || fields[0] != fields[1] {
			t.Fatalf("the shell read and is: %q, %v", output, err)
		}
		buffer := make([]byte, 32)
		n, err := mine.ReadAt(buffer, 0)
		if got := strings.TrimSpace(string(buffer[:n])); got != strconv.Itoa(os.Getpid()) {
			t.Fatalf("process %d read %q, %v", os.Getpid(), got, err)
		}
	}
}

func TestSmallReadsGetTheSameFile(t *testing.T) {
	dir := testnode.Install(t).Mount()
	for _, name := range []string{"pod", "pod.uid", "pod.nodename"} {
		file, err := os.Open(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		var all bytes.Buffer
		for buffer := make([]byte, 1); ; {
			n, err := file.Read(buffer)
			if n == 0 {
				break
			} else if err != nil {
				t.Fatal(err)
			}
			all.Write(buffer[:n])
		}
		if want := testnode.Read(t, dir, name); all.String() != want {
			t.Errorf("%s, byte by byte: %q, want %q", name, all.String(), want)
		}
	}
}

// Since Linux 6.5 sendfile reads through the page cache, whose pages other
// readers get as well. It must fail so that programs fall back to read(2). Before,
// it does not, and works.
func TestWhatDiffersByReaderStaysOutOfThePageCache(t *testing.T) {
	dir := testnode.Install(t).Mount()
	for name, want := range map[string]error{"pod": unix.EINVAL, "pod.nodename": unix.EINVAL, "pod.uid": nil} {
		file, err := os.Open(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		reader, writer, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer reader.Close()
		defer writer.Close()
		sent, err := unix.Sendfile(int(writer.Fd()), int(file.Fd()), nil, 100)
		if err == nil {
			content := make([]byte, sent)
			if _, err := io.ReadFull(reader, content); err != nil || string(content) != testnode.Read(t, dir, name) {
				t.Errorf("sendfile of %s: %q, %v", name, content, err)
			}
		} else if !errors.Is(err, want) {
			t.Errorf("sendfile of %s: %v, want %v", name, err, want)
		}
		if _, err := unix.Mmap(int(file.Fd()), 0, 1, unix.PROT_READ, unix.MAP_SHARED); name != "pod.uid" && !errors.Is(err, unix.ENODEV) {
			t.Errorf("shared mmap of %s: %v, want ENODEV", name, err)
		}
	}
	cat, err := exec.Command("cat", filepath.Join(dir, "pod")).Output()
	if pid, convErr := strconv.Atoi(strings.TrimSpace(string(cat))); err != nil || convErr != nil || pid == os.Getpid() {
		t.Errorf("cat pod: %q, %v", cat, err)
	}
}

// tar compares a file's ctime before and after it reads, and exits with status 1 if it is
// another one. Other programs poll mtime, to see whether they have to read again.
func TestTimesAreThoseOfTheMount(t *testing.T) {
	d := testnode.Install(t)
	earliest := time.Now()
	dir := d.Mount()
	latest := time.Now()
	times := func() map[string][3]unix.Timespec {
		all := map[string][3]unix.Timespec{}
		for _, name := range []string{".", "pod.uid", "pod.nodename", "pod", "pid"} {
			var stat unix.Stat_t
			if err := unix.Lstat(filepath.Join(dir, name), &stat); err != nil {
				t.Fatal(err)
			}
			all[name] = [3]unix.Timespec{stat.Atim, stat.Mtim, stat.Ctim}
		}
		return all
	}
	want := times()
	for name, all := range want {
		if at := time.Unix(all[2].Unix()); at.Before(earliest) || at.After(latest) || all != want["."] {
			t.Errorf("%s is of %v; it was mounted between %v and %v", name, at, earliest, latest)
		}
	}
	same := func(after string) {
		t.Helper()
		for range 3 {
			time.Sleep(10 * time.Millisecond) // the kernel's clock of files has ticks of 4 ms
			if got := times(); !maps.Equal(got, want) {
				t.Errorf("%s, times are %v, and were %v", after, got, want)
			}
			// To a pipe: tar does not read what it writes to /dev/null.
			var archive, stderr bytes.Buffer
			tar := exec.Command("tar", "--create", "--file", "-", "--directory", dir, ".")
			tar.Stdout, tar.Stderr = &archive, &stderr
			if err := tar.Run(); err != nil || stderr.Len() > 0 || !strings.Contains(archive.String(), testnode.PodUID) {
				t.Errorf("%s: tar: %v: %s", after, err, stderr.String())
			}
		}
	}
	same("at first")
	active, _ := d.Pair()
	testnode.Kill(t, active)
	same("after a take-over")
	d.Must("mount", dir, testnode.GoodOptions)
	same("after another call of mount")
	d.ReplaceBinary(testnode.Newer)
	d.Must("init")
	same("after an upgrade")
	d.KillPair()
	d.Must("init")
	same("after a loss")
}

func TestNodenameIsAskedAtEveryRead(t *testing.T) {
	d := testnode.Install(t)
	// A daemon in a UTS name space of its own has a host name that can change.
	dir := t.TempDir()
	uts := testnode.Started(t, exec.Command("unshare", "--uts", "--cgroup", "sh", "-c",
		`hostname first.example; "$1" mount "$2" "$3" >/dev/null; echo ready; read line; hostname second.example; echo ready; read line`,
		"sh", d.Path, dir, testnode.GoodOptions))
	for i, want := range []string{"first.example\n", "second.example\n"} {
		if i > 0 {
			uts.Does("")
		}
		if got := testnode.Read(t, dir, "pod.nodename"); got != want {
			t.Errorf("pod.nodename is %q, want %q", got, want)
		}
		if info, err := os.Stat(filepath.Join(dir, "pod.nodename")); err != nil || info.Size() != int64(len(want)) {
			t.Errorf("size %d, %v; want %d", info.Size(), err, len(want))
		}
	}
}

func TestReaderOutsideThePIDNamespaceGetsAnErrorAndNoLie(t *testing.T) {
	d := testnode.Install(t)
	dir := t.TempDir()
	testnode.Started(t, exec.Command("unshare", "--cgroup", "--pid", "--fork", "--kill-child", "sh", "-c", `"$1" mount "$2" "$3" >/dev/null; echo ready; read line`, "sh", d.Path, dir, testnode.GoodOptions))
	if data, err := os.ReadFile(filepath.Join(dir, "pod")); !errors.Is(err, unix.ESRCH) {
		t.Errorf("pod: %q, %v; want ESRCH", data, err)
	}
	if info, err := os.Stat(filepath.Join(dir, "pod")); err != nil || info.Size() != 0 {
		t.Errorf("stat of pod: %v, %v; want size 0", info, err)
	}
	if got := testnode.Read(t, dir, "pod.uid"); got != testnode.PodUID+"\n" {
		t.Errorf("pod.uid is %q", got)
	}
}

func TestAllUsersMayRead(t *testing.T) {
	d := testnode.Install(t)
	dir := d.Mount()
	// The volume's parents: the test's temporary directory, and the base of those.
	for _, parent := range []string{filepath.Dir(dir), filepath.Dir(filepath.Dir(dir))} {
		if err := os.Chmod(parent, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	cat := exec.Command("cat", filepath.Join(dir, "pod.uid"))
	cat.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 1000, Gid: 1000}}
	if output, err := cat.CombinedOutput(); err != nil || string(output) != testnode.PodUID+"\n" {
		t.Errorf("as uid 1000: %q, %v", output, err)
	}
	list := exec.Command("ls", filepath.Join(d.RunDir, "fs"))
	list.SysProcAttr = cat.SysProcAttr
	if output, err := list.CombinedOutput(); err == nil || !strings.Contains(string(output), "Permission denied") {
		t.Errorf("the list of all volumes, as uid 1000: %q, %v", output, err)
	}
}

func TestADirectoryThatIsMountedForAnotherPodShowsThatPod(t *testing.T) {
	d := testnode.Install(t)
	dir := d.Mount()
	if got := testnode.Read(t, dir, "pod.uid"); got != testnode.PodUID+"\n" {
		t.Fatal(got)
	}
	// A process that stays in the volume keeps what is cached of it alive.
	holder, err := os.Open(filepath.Join(dir, "pod.uid"))
	if err != nil {
		t.Fatal(err)
	}
	defer holder.Close()
	d.Must("unmount", dir)
	const next = "9c5b0b2b0f7e4a0e8f0a5d8c6b7a9e1f"
	d.Must("mount", dir, strings.Replace(testnode.GoodOptions, testnode.PodUID, next, 1))
	if got := testnode.Read(t, dir, "pod.uid"); got != next+"\n" {
		t.Errorf("pod.uid is %q, want %q", got, next)
	}
}
