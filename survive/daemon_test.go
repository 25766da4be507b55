package survive_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/internal/testnode"
	"example.com/pod-info-fuse/survive/volume"
)

// The kubelet reads stdout and stderr as one pipe until its end.
func TestTheKubeletsPipeEndsWhileTheDaemonLives(t *testing.T) {
	d := testnode.Install(t)
	dir := t.TempDir()
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	command := d.Command("mount", dir, testnode.GoodOptions)
	command.Stdout, command.Stderr = writer, writer
	command.ExtraFiles = []*os.File{writer} // and once more, as a leak
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	writer.Close()
	if err := reader.SetReadDeadline(time.Now().Add(testnode.Forever)); err != nil {
		t.Fatal(err)
	}
	output, err := io.ReadAll(reader)
	if err != nil || string(output) != `{"status":"Success"}`+"\n" {
		t.Errorf("%q, %v", output, err)
	}
	if err := command.Wait(); err != nil {
		t.Error(err)
	}
	if !testnode.Alive(d.Daemon()) {
		t.Error("the daemon does not live")
	}
}

func TestTheDaemonHasOnlyWhatItNeeds(t *testing.T) {
	d := testnode.Install(t)
	dir := t.TempDir()
	command := d.Command("mount", dir, testnode.GoodOptions)
	command.Dir = t.TempDir()
	command.Env = append(os.Environ(), "SECRET=hunter2")
	secret, err := os.Create(filepath.Join(t.TempDir(), "secret"))
	if err != nil {
		t.Fatal(err)
	}
	defer secret.Close()
	command.ExtraFiles = []*os.File{secret, secret, secret, secret, secret}
	if a := d.Run(command); a.Status != "Success" {
		t.Fatalf("%+v", a)
	}
	active, _ := d.Pair()
	proc := fmt.Sprintf("/proc/%d", active)
	if cwd, err := os.Readlink(proc + "/cwd"); err != nil || cwd != "/" {
		t.Errorf("working directory %s, %v", cwd, err)
	}
	if name := testnode.Read(t, proc, "comm"); name != "pod-info-fuse\n" {
		t.Errorf("process name %q", name)
	}
	if environment := testnode.Read(t, proc, "environ"); environment != "GOMAXPROCS=2\x00" {
		t.Errorf("environment %q", environment)
	}
	if session, err := unix.Getsid(active); err != nil || session != active {
		t.Errorf("session %d, %v; want its own, %d", session, err, active)
	}
	// It closes a connection of status when it has read that its client has gone.
	testnode.Eventually(t, "it has just the descriptors that it needs", func() bool {
		descriptors, err := os.ReadDir(proc + "/fd")
		if err != nil {
			t.Fatal(err)
		}
		sockets := 0
		for _, descriptor := range descriptors {
			number, _ := strconv.Atoi(descriptor.Name())
			target, err := os.Readlink(proc + "/fd/" + descriptor.Name())
			if err != nil {
				return false
			}
			switch {
			case number < 2 && target == "/dev/null":
			case number == 2 && target == d.RunDir+"/crash":
			case number == 7 && (target == "/dev/null" || strings.HasPrefix(target, "socket:")): // the log
			case number > 2 && (target == "/dev/fuse" || target == d.RunDir+"/daemon.lock"):
			case number == 9 && target == d.RunDir+"/counters":
			case strings.HasPrefix(target, "anon_inode:[event"): // the runtime's poller
			case target == "anon_inode:[pidfd]": // of the standby
			case strings.HasPrefix(target, "socket:") && sockets < 3: // the control socket twice, and the link to the standby
				sockets++
			default:
				t.Logf("descriptor %d is %s", number, target)
				return false
			}
		}
		return true
	})
}

func TestMountsAtOnceFromColdShareOneDaemon(t *testing.T) {
	const count = 50
	d := testnode.Install(t)
	base := t.TempDir()
	dirs := make([]string, count)
	var group sync.WaitGroup
	for i := range dirs {
		dirs[i] = filepath.Join(base, strconv.Itoa(i))
		if err := os.Mkdir(dirs[i], 0o755); err != nil {
			t.Fatal(err)
		}
		group.Go(func() {
			if a := d.Call("mount", dirs[i], testnode.Edit(testnode.PodUID, uidOf(i))); a.Status != "Success" {
				t.Errorf("volume %d: %+v", i, a)
			}
		})
	}
	group.Wait()
	for i, dir := range dirs {
		if got := testnode.Read(t, dir, "pod.uid"); got != uidOf(i)+"\n" {
			t.Errorf("volume %d: pod.uid is %q", i, got)
		}
	}
	d.Pair()
	if daemons := testnode.DaemonsOf(d); len(daemons) != 2 { // active and standby
		t.Errorf("daemons: %v", daemons)
	}
	if s := d.Status(); len(s.Volumes) != count {
		t.Errorf("status shows %d volumes", len(s.Volumes))
	}
}

// uidOf returns the UID of the i-th pod.
func uidOf(i int) string { return fmt.Sprintf("00000000-0000-4000-8000-%012x", i) }

func TestAThousandVolumes(t *testing.T) {
	const count, called = 1000, 20
	d := testnode.Install(t)
	base := t.TempDir()
	dirs := make([]string, count)
	store := volume.Store{Dir: d.RunDir + "/volumes"}
	var record volume.Record
	for i := range dirs {
		dirs[i] = filepath.Join(base, strconv.Itoa(i))
		if err := os.Mkdir(dirs[i], 0o755); err != nil {
			t.Fatal(err)
		}
		// Most are made as mount would make them.
		if i < called/2 || i >= count-called/2 {
			d.Must("mount", dirs[i], testnode.Edit(testnode.PodUID, uidOf(i)))
			record = testnode.Must(store.Get(volume.NewID(dirs[i])))
			continue
		}
		record.Dir, record.PodUID = dirs[i], uidOf(i)
		if err := errors.Join(store.Put(record), unix.Mount(d.RunDir+"/fs/"+record.ID().String(), dirs[i], "", unix.MS_BIND, "")); err != nil {
			t.Fatal(err)
		}
	}
	for i := range count {
		if got := testnode.Read(t, dirs[i], "pod.uid"); got != uidOf(i)+"\n" {
			t.Fatalf("volume %d: pod.uid is %q", i, got)
		}
	}
	listed, err := os.ReadDir(filepath.Join(d.RunDir, "fs"))
	if err != nil || len(listed) != count {
		t.Errorf("the root lists %d volumes, %v", len(listed), err)
	}
	s := d.Status()
	if len(s.Volumes) != count {
		t.Errorf("status lists %d volumes", len(s.Volumes))
	}
	for _, v := range s.Volumes {
		if v.State != "ok" {
			t.Errorf("%s is %s", v.Dir, v.State)
		}
	}
	for i := 0; i < count; i += count / called {
		d.Must("unmount", dirs[i])
	}
	if s := d.Status(); len(s.Volumes) != count-called || s.Mount.State != "ok" {
		t.Errorf("with fewer: %d volumes, %+v", len(s.Volumes), s.Mount)
	}
	ends(d, "stop", "--force")
	if left := strings.Count(testnode.Read(t, "/proc/self/mountinfo"), base); left > 0 {
		t.Errorf("%d mounts are left", left)
	}
}

func TestTwoDriversShareNothing(t *testing.T) {
	one, two := testnode.Install(t), testnode.Install(t)
	one.Mount()
	dir := two.Mount()
	one.KillPair()
	if got := testnode.Read(t, dir, "pod.uid"); got != testnode.PodUID+"\n" {
		t.Errorf("pod.uid is %q", got)
	}
	if s := two.Status(); len(s.Volumes) != 1 {
		t.Errorf("status: %+v", s)
	}
}
