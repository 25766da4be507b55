package survive_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/internal/testnode"
)

// kubelets are scripts by which a kubelet gets a mount namespace of its own. $1 is its directory,
// $2 one that is on a private mount, $3 the driver's, and $4 where a container has that.
var kubelets = map[string]string{
	"a slave":                `mount --make-rslave /`,
	"a slave that is shared": `mount --make-rslave / && mount --make-rshared /`, // as OpenShift's kubens
	"a peer":                 ``,
	"in a container":         kubeletsContainer,
	"in a container that has the driver at another path": kubeletsContainer,
}

// Its directory is the host's, rshared; /run is its own.
const kubeletsContainer = `root=$2/root; mkdir -p "$root" && mount -t tmpfs root "$root" && cd "$root" &&
	for dir in /bin /lib /lib64 /usr /proc /dev "$1"; do
		[ ! -e "$dir" ] || { mkdir -p ".$dir" && mount --rbind "$dir" ".$dir"; } || exit
	done; mkdir -p run ".$4" && mount --bind "$3" ".$4" && exec chroot . sh -c "echo ready; read end"`

// startKubelet has the driver called by a kubelet.
func startKubelet(d testnode.Driver, script string, args ...string) (called testnode.Driver, end func()) {
	d.T.Helper()
	process := &exec.Cmd{
		Path:        "/bin/sh",
		Args:        append([]string{"sh", "-c", strings.TrimPrefix(script+" && echo ready && read end", " && "), "sh"}, args...),
		Env:         os.Environ(),
		SysProcAttr: &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWCGROUP},
	}
	pid := testnode.Started(d.T, process).PID
	d.On = []string{"nsenter", "--target", fmt.Sprint(pid), "--mount", "--root", "--cgroup", "--"}
	return d, func() { testnode.Kill(d.T, pid) }
}

// shares has a directory be on a mount of its own, as on nodes, whose mounts are shared.
func shares(t *testing.T, dir string, flags uintptr) string {
	t.Helper()
	for _, err := range []error{
		unix.Mount("", "/", "", unix.MS_REC|unix.MS_SHARED, ""),
		unix.Mount(dir, dir, "", unix.MS_BIND, ""), unix.Mount("", dir, "", flags, ""),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	return dir
}

// All that a kubelet calls for is done on the node, and the kubelet sees it.
func TestAKubeletInAnotherMountNamespaceHasTheNodesVolumes(t *testing.T) {
	for name, script := range kubelets {
		t.Run(name, func(t *testing.T) {
			d := testnode.Install(t)
			dir := d.KubeletDir(testnode.PodUID)
			root, _, _ := strings.Cut(dir, "/pods/")
			log := filepath.Join(t.TempDir(), "log")
			testnode.Configure(t, d, fmt.Sprintf(`{"log": %q}`, log))
			args := []string{shares(t, root, unix.MS_SHARED), shares(t, t.TempDir(), unix.MS_PRIVATE), filepath.Dir(d.Path), filepath.Dir(d.Path)}
			sees := d
			if strings.HasSuffix(name, "another path") {
				args[3] = filepath.Join("/plugins", filepath.Base(args[2]))
				sees.Path = filepath.Join(args[3], filepath.Base(d.Path))
			}
			kubelet, ends := startKubelet(sees, script, args...)
			reads := func(when string) {
				t.Helper()
				seen, err := kubelet.Execute([]string{"cat", dir + "/pod.uid"}).CombinedOutput()
				if err != nil {
					t.Errorf("%s, the kubelet cannot read: %v", when, err)
				}
				for where, got := range map[string]string{"kubelet": string(seen), "node": testnode.Read(t, dir, "pod.uid")} {
					if got != testnode.PodUID+"\n" {
						t.Errorf("%s, the %s reads %q", when, where, got)
					}
				}
			}
			kubelet.Must("mount", dir, testnode.GoodOptions)
			reads("mounted")
			active, standby := d.Pair()
			for _, pid := range []int{active, standby} {
				ours, _ := os.Readlink("/proc/self/ns/mnt")
				if theirs, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/mnt", pid)); err != nil || theirs != ours {
					t.Errorf("process %d is in %s (%v), the node in %s", pid, theirs, err, ours)
				}
			}
			// The kubelet is restarted in another namespace, and the driver is called on the node,
			// too.
			ends()
			kubelet, _ = startKubelet(sees, script, args...)
			reads("after a restart of the kubelet")
			other := d.Mount()
			kubelet.Must("mount", dir, testnode.GoodOptions)
			if nowActive, nowStandby := d.Pair(); nowActive != active || nowStandby != standby {
				t.Errorf("processes %d and %d became %d and %d", active, standby, nowActive, nowStandby)
			}
			for _, by := range []testnode.Driver{kubelet, d} {
				d.KillPair()
				by.Must("init")
				reads("healed")
			}
			d.Must("unmount", other)
			kubelet.Must("unmount", dir)
			kubelet.OnItsNode(`rmdir "$1"`, dir) // as a kubelet does
			if count := testnode.MountsOn(t, dir); count != 0 {
				t.Errorf("%d mounts are left", count)
			}
			if lines := testnode.Read(t, log); strings.Count(lines, "mount "+dir+": Success") < 2 {
				t.Errorf("it has not logged as it is configured: %s", lines)
			}
		})
	}
}

// A kubelet does not see what the node mounts: its pods would have an empty directory.
func TestAKubeletThatSeesNoMountsOfTheNodeIsToldSo(t *testing.T) {
	for name, script := range map[string]string{
		"private": `mount --make-rprivate /`, "unbindable": `mount --make-runbindable /`,
		"shared, but not with the node": `mount --make-rprivate / && mount --make-rshared /`,
		"a slave, but not of the node":  `mount --make-rprivate / && mount --make-shared "$1" && mount --bind "$1" "$2" && mount --make-slave "$1"`,
	} {
		t.Run(name, func(t *testing.T) {
			d := testnode.Install(t)
			dir := d.KubeletDir(testnode.PodUID)
			root, _, _ := strings.Cut(dir, "/pods/")
			kubelet, _ := startKubelet(d, script, shares(t, root, unix.MS_SHARED), t.TempDir())
			if a := kubelet.Call("mount", dir, testnode.GoodOptions); a.Status != "Failure" || !strings.Contains(a.Message, "must be a slave of the host's") {
				t.Errorf("mount: %+v", a)
			}
			testnode.LeftNothing(t, d, dir)
		})
	}
}

// A version before 0.2.0 has mounted in the kubelet's namespace. Its pods end, and nobody takes its
// volumes for unused.
func TestVolumesThatAreInAKubeletsNamespaceOnly(t *testing.T) {
	d := testnode.Install(t)
	used, ends := d.KubeletDir(uidOf(1)), d.KubeletDir(uidOf(2))
	shares(t, t.TempDir(), unix.MS_SHARED) // and all of the node
	kubelet, _ := startKubelet(d, `mount --make-rslave / && mount --make-rshared / && mount --bind /proc/$$ /proc/1`)
	kubelet.Must("mount", used, testnode.Edit(testnode.PodUID, uidOf(1)))
	kubelet.Must("mount", ends, testnode.Edit(testnode.PodUID, uidOf(2)))
	kubelet.OnItsNode(`umount /proc/1`) // this version comes
	kubelet.Must("init")
	kubelet.Must("unmount", ends)
	kubelet.OnItsNode(`rmdir "$1"`, ends) // as a kubelet does
	if output, err := d.Command("stop").CombinedOutput(); err == nil || !strings.Contains(string(output), "in another mount namespace") {
		t.Errorf("stop: %v: %s", err, output)
	}
	if got := kubelet.OnItsNode(`cat "$1/pod.uid"`, used); got != uidOf(1)+"\n" {
		t.Errorf("it reads %q", got)
	}
	if output, err := d.Command("stop", "--force").CombinedOutput(); err != nil {
		t.Errorf("stop --force: %v: %s", err, output)
	}
	kubelet.Must("unmount", used)
	kubelet.Must("mount", used, testnode.Edit(testnode.PodUID, uidOf(1)))
	if got := testnode.Read(t, used, "pod.uid"); got != uidOf(1)+"\n" {
		t.Errorf("on the node, it reads %q", got)
	}
	kubelet.Must("unmount", used)
}

// An installer replaces the program while the kubelet calls it.
func TestAKubeletCallsWhatIsReplaced(t *testing.T) {
	d := testnode.Install(t)
	dir := d.KubeletDir(testnode.PodUID)
	shares(t, t.TempDir(), unix.MS_SHARED)
	kubelet, _ := startKubelet(d, kubelets["a slave"])
	other := testnode.CopyOf(t, testnode.Binary)
	end, ended := make(chan bool), make(chan bool)
	go func() {
		defer close(ended)
		for {
			select {
			case <-end:
				return
			default:
				d.ReplaceBinary(other)
				d.ReplaceBinary(testnode.Binary)
			}
		}
	}()
	for range 20 {
		kubelet.Must("mount", dir, testnode.GoodOptions)
		if testnode.MountsOn(t, dir) == 0 {
			t.Error("the node has no volume")
			kubelet.OnItsNode(`umount "$1"`, dir)
		}
		kubelet.Must("unmount", dir)
	}
	close(end)
	<-ended
}

// Where process 1 does not have the kubelet's directory, it is that of another node.
func TestWhereProcess1IsOfAnotherNodeTheDriverStays(t *testing.T) {
	d := testnode.Install(t)
	pods := t.TempDir()
	dir := filepath.Join(pods, "pod", "volume")
	kubelet, _ := startKubelet(d, `mount --make-rprivate / && mount -t tmpfs node "$1" && mount -t tmpfs run /run && mkdir -p "$2"`, pods, dir)
	kubelet.Must("init")
	kubelet.Must("mount", dir, testnode.GoodOptions)
	kubelet.Must("init")
	if got := kubelet.OnItsNode(`cat "$1/pod.uid"`, dir); got != testnode.PodUID+"\n" {
		t.Errorf("it reads %q", got)
	}
	kubelet.Must("unmount", dir)
	kubelet.OnItsNode(`rmdir "$1"`, dir) // as a kubelet does
	if output, err := kubelet.Command("stop", "--force").CombinedOutput(); err != nil {
		t.Errorf("stop: %v: %s", err, output)
	}
}

// inAnotherNamespace is the driver as it is called where process 1 is another one, and has other
// mounts, but the same run directory.
func inAnotherNamespace(d testnode.Driver, more uintptr) testnode.Driver {
	d.T.Helper()
	process := &exec.Cmd{
		Path:        "/bin/sh",
		Args:        []string{"sh", "-c", "mount --make-rprivate / && mount -t proc proc /proc && mount --bind /proc/$$ /proc/1 && echo ready && read end"},
		Env:         os.Environ(),
		SysProcAttr: &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWCGROUP | more},
	}
	d.On = []string{"nsenter", "--target", fmt.Sprint(testnode.Started(d.T, process).PID), "--mount", "--cgroup", "--pid", "--"}
	return d
}

// Nobody starts a second daemon beside one that serves elsewhere: the call fails, says why, and
// harms nobody.
func TestACallInOtherNamespacesThanTheDaemonsHarmsNobody(t *testing.T) {
	newerFormat := testnode.Build(t, "speaks-newer", "newer")
	const otherMounts, otherPIDs = "drain the node, and call pod-info-fuse stop --force --driver ", "call the driver in the namespaces in which the daemon was started"
	for name, row := range map[string]struct {
		serves, calls string
		more          uintptr
		says          string
	}{
		"other mounts":          {testnode.Binary, testnode.Binary, 0, otherMounts},
		"other PIDs":            {testnode.Binary, testnode.Binary, syscall.CLONE_NEWPID, otherPIDs},
		"PIDs, an older format": {newerFormat, testnode.Binary, syscall.CLONE_NEWPID, otherPIDs},
		"PIDs, a newer format":  {testnode.Binary, newerFormat, syscall.CLONE_NEWPID, otherPIDs},
	} {
		t.Run(name, func(t *testing.T) {
			d := testnode.Install(t)
			d.ReplaceBinary(testnode.CopyOf(t, row.serves))
			other := inAnotherNamespace(d, row.more)
			l := readAtTimes(t, d.Mount())
			active, standby := d.Pair()
			d.ReplaceBinary(testnode.CopyOf(t, row.calls))
			other.Must("init")
			if output, err := other.Command("restore").CombinedOutput(); err == nil || !strings.Contains(string(output), row.says) {
				t.Errorf("restore: %v: %s", err, output)
			}
			if a := other.Call("mount", t.TempDir(), testnode.Edit(testnode.PodUID, uidOf(1))); a.Status != "Failure" || !strings.Contains(a.Message, row.says) {
				t.Errorf("mount: %+v", a)
			}
			l.stop()
			d.ReplaceBinary(testnode.CopyOf(t, row.serves))
			if nowActive, nowStandby := d.Pair(); nowActive != active || nowStandby != standby {
				t.Errorf("processes %d and %d became %d and %d", active, standby, nowActive, nowStandby)
			}
		})
	}
}
