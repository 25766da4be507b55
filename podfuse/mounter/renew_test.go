package mounter

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/podfuse/wire"
)

// loseBoth kills the mounter and its spare together.
func (w *world) loseBoth() {
	w.t.Helper()
	before := w.status("a spare", func(s Status) bool { return s.Spare != 0 })
	for _, pid := range []int{before.Spare, before.PID} {
		must(w.t, unix.Kill(pid, unix.SIGSTOP)) // or the spare would be at it before it is killed
	}
	for _, pid := range []int{before.Spare, before.PID} {
		must(w.t, unix.Kill(pid, unix.SIGKILL))
	}
	for _, pid := range []int{before.Spare, before.PID} {
		eventually(w.t, "it has ended", func() bool { return unix.Kill(pid, 0) == unix.ESRCH })
	}
}

// sockets are the mount points of the sockets in a process's mount namespace, of those that are
// there now or of others.
func (w *world) sockets(pid int, new bool) (found []string) {
	w.t.Helper()
	var stat unix.Stat_t
	must(w.t, unix.Stat(w.client.Socket(), &stat))
	now := fmt.Sprintf("%d:%d", unix.Major(stat.Dev), unix.Minor(stat.Dev))
	table, err := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", pid))
	must(w.t, err)
	for line := range strings.Lines(string(table)) {
		fields := strings.Fields(line)
		if fields[3] == "/"+wire.Socket && (fields[2] == now) == new {
			found = append(found, fields[4])
		}
	}
	return found
}

// bindServer makes a directory with the FIFO and the socket of the server volume.
func (w *world) bindServer(dir string) {
	w.t.Helper()
	must(w.t, os.Mkdir(dir, 0o755))
	for from, on := range map[string]string{w.client.FIFO(w.server.ID()): wire.Device, w.client.Socket(): wire.Socket} {
		on = filepath.Join(dir, on)
		must(w.t, os.WriteFile(on, nil, 0o600))
		must(w.t, unix.Mount(from, on, "", unix.MS_BIND, ""))
		w.t.Cleanup(func() { _ = unix.Unmount(on, unix.MNT_DETACH) })
		must(w.t, unix.Mount("", on, "", unix.MS_PRIVATE, ""))
	}
}

// Root of a pod can mount its server volume as often as it likes. When the mounter and its spare
// have died together, so many of its sockets are renewed as a container may have volumes, and the
// other pods have the new socket.
func TestAPodWithManySockets(t *testing.T) {
	const otherUID, copies = "99999999-2222-3333-4444-555555555555", mostStandIns + 50
	w := newWorld(t)
	otherData, otherServer := w.mount("data", otherUID)
	many := w.container(containerOptions{Copies: copies})
	other := w.container(containerOptions{Client: otherData.ID(), Server: otherServer.ID()})
	many.serve(launchOptions{Text: "many"})
	other.serve(launchOptions{Text: "other", Server: otherServer.ID()})
	if all := w.sockets(many.pid, true); len(all) <= copies {
		t.Fatalf("the pod has %d sockets", len(all))
	}
	w.loseBoth()
	_, err := w.client.Ensure()
	must(t, err)
	eventually(t, "the other pod has the new socket", func() bool { return len(w.sockets(other.pid, true)) == 1 })
	if old := w.sockets(other.pid, false); len(old) > 0 {
		t.Errorf("the other pod has old sockets, too: %q", old)
	}
	own := func() bool { return slices.Contains(w.sockets(many.pid, true), "/run/pod-fuse/socket") }
	eventually(t, "the pod has the new socket", own)
	if renewed := len(w.sockets(many.pid, true)); renewed > mostStandIns {
		t.Errorf("%d sockets of the pod were renewed, want at most %d", renewed, mostStandIns)
	}
}

// Something is mounted over the directory of a pod's volumes: that is no other pod's trouble.
func TestASocketThatIsCovered(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	dir := t.TempDir()
	w.bindServer(filepath.Join(dir, "volumes"))
	must(t, unix.Mount("tmpfs", dir, "tmpfs", 0, ""))
	defer unix.Unmount(dir, unix.MNT_DETACH)
	w.loseBoth()
	for range 20 { // also when containers have had their renewal
		if _, err := w.client.Ensure(); err != nil {
			t.Fatalf("a call-out of another pod: %v", err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// A path of the kubelet's that hangs, as on a server that does not answer, hangs no call-out of
// another pod.
func TestASocketThatHangs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	dir := t.TempDir()
	server := exec.Command("/proc/self/exe", "everyname", dir)
	said, err := server.StdoutPipe()
	must(t, err)
	must(t, server.Start())
	defer func() { _ = server.Process.Kill(); _ = server.Wait(); _ = unix.Unmount(dir, unix.MNT_DETACH) }()
	if _, err := said.Read(make([]byte, 10)); err != nil {
		t.Fatal(err)
	}
	below := filepath.Join(dir, "below")
	must(t, unix.Mount("tmpfs", below, "tmpfs", 0, ""))
	w.bindServer(filepath.Join(below, "volumes"))
	stop(t, server.Process.Pid)
	w.loseBoth()
	_, err = w.client.Ensure()
	must(t, err)
	w.now()
}
