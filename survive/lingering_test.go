package survive_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/internal/testnode"
	"example.com/pod-info-fuse/survive/volume"
)

// mountInPod mounts a volume on a directory of the kubelet's, and returns that of the pod as well.
func mountInPod(d testnode.Driver) (dir, pod string) {
	d.T.Helper()
	dir = d.KubeletDir(testnode.PodUID)
	d.Must("mount", dir, testnode.GoodOptions)
	return dir, filepath.Dir(filepath.Dir(filepath.Dir(dir)))
}

// A kubelet that starts may unmount the volume of a container that runs, and mount it anew:
// docs/limits.md.
func TestAContainerReadsOnWhenItsVolumeIsUnmounted(t *testing.T) {
	d := testnode.Install(t)
	dir, pod := mountInPod(d)
	c := startContainer(t, dir)
	reads := func(when string) {
		t.Helper()
		for _, path := range []string{"volume/pod.uid", "subpath"} {
			if got := c.read(path); got != testnode.PodUID {
				t.Errorf("%s, %s in the container reads %q", when, path, got)
			}
		}
	}
	d.Must("unmount", dir)
	lingers(d, dir)
	reads("unmounted")
	if err := os.Remove(dir); err != nil {
		t.Errorf("the kubelet's rmdir: %v", err)
	}
	d.Must("unmount", dir) // it repeats itself
	lingers(d, dir)
	d.KillPair()
	d.Must("init")
	reads("after a loss")
	lingers(d, dir)
	if err := os.Remove(filepath.Join(d.RunDir, "daemon.lock")); err != nil { // nobody knows that it serves
		t.Fatal(err)
	}
	d.Must("init")
	reads("after its lock was lost")
	lingers(d, dir)
	if err := os.Mkdir(dir, 0o750); err != nil {
		t.Fatal(err)
	}
	d.Must("mount", dir, testnode.GoodOptions)
	if s := d.Status(); len(s.Volumes) != 1 || s.Volumes[0].State != "ok" {
		t.Errorf("status: %+v", s.Volumes)
	}
	if got := testnode.Read(t, dir, "pod.uid"); got != testnode.PodUID+"\n" {
		t.Errorf("mounted anew, pod.uid reads %q", got)
	}
	reads("mounted anew")
	if _, err := os.Stat(markOf(d, dir)); !os.IsNotExist(err) {
		t.Errorf("mounted anew, it is marked as one that lingers: %v", err)
	}
	c.ends()
	d.Must("unmount", dir)
	lingers(d, dir)
	d.PodGoes(pod)
	d.Must("unmount", dir)
	forgot(d, dir)
}

// Of a volume outside of the kubelet's directories, nobody tells when its containers have ended.
func TestAVolumeOutsideOfTheKubeletsDirectoriesEndsWithItsMount(t *testing.T) {
	d := testnode.Install(t)
	dir := d.Mount()
	c := startContainer(t, dir)
	d.Must("unmount", dir)
	forgot(d, dir)
	if got := c.read("volume/pod.uid"); got != "" {
		t.Errorf("in the container, pod.uid reads %q", got)
	}
	d.Must("mount", dir, testnode.Edit(testnode.PodUID, uidOf(1)))
	if got := c.read("volume/pod.uid"); got != "" {
		t.Errorf("in the container of another pod, it reads %q", got)
	}
	d.Must("unmount", dir)
	testnode.Gone(t, d, dir)
}

// ends ends the container.
func (c container) ends() {
	c.T.Helper()
	c.Stdin.Close()
	testnode.Eventually(c.T, "the container has ended", func() bool { return !testnode.Alive(c.PID) })
}

// lingers checks that of the volume there is a record, and no mount here.
func lingers(d testnode.Driver, dir string) {
	d.T.Helper()
	if s := d.Status(); len(s.Volumes) != 1 || s.Volumes[0].State != "lingering" || s.Volumes[0].PodUID != testnode.PodUID {
		d.T.Errorf("status: %+v", s.Volumes)
	}
	if count := testnode.MountsOn(d.T, dir); count != 0 {
		d.T.Errorf("%d mounts are on %s", count, dir)
	}
}

// forgot checks that nothing is known of the volume.
func forgot(d testnode.Driver, dir string) {
	d.T.Helper()
	for _, v := range d.Status().Volumes {
		if v.Dir == dir {
			d.T.Errorf("there is %+v", v)
		}
	}
	if _, err := os.Stat(markOf(d, dir)); !os.IsNotExist(err) {
		d.T.Errorf("it is marked as one that lingers: %v", err)
	}
}

// markOf is the file that says that a volume lingers.
func markOf(d testnode.Driver, dir string) string {
	return filepath.Join(d.RunDir, "lingering", volume.NewID(dir).String())
}

// Whatever is called next forgets a volume whose pod is gone.
func TestALingeringVolumeIsForgotten(t *testing.T) {
	for name, call := range map[string]func(d testnode.Driver, dir, other string){
		"by unmount":                func(d testnode.Driver, dir, _ string) { d.Must("unmount", dir) },
		"by the unmount of another": func(d testnode.Driver, _, other string) { d.Must("unmount", other) },
		"by the mount of another": func(d testnode.Driver, _, other string) {
			d.Must("mount", other, testnode.Edit(testnode.PodUID, uidOf(1)))
		},
		"by init":              func(d testnode.Driver, _, _ string) { d.Must("init") },
		"by restore":           func(d testnode.Driver, _, _ string) { ends(d, "restore") },
		"by init after a loss": func(d testnode.Driver, _, _ string) { d.KillPair(); d.Must("init") },
	} {
		t.Run(name, func(t *testing.T) {
			d := testnode.Install(t)
			dir, pod := mountInPod(d)
			other := d.KubeletDir(uidOf(1))
			d.Must("mount", other, testnode.Edit(testnode.PodUID, uidOf(1)))
			d.Must("unmount", dir)
			ends(d, "restore")
			if s := d.Status(); len(s.Volumes) != 2 {
				t.Errorf("status: %+v", s.Volumes)
			}
			d.PodGoes(pod)
			call(d, dir, other)
			forgot(d, dir)
			d.Must("unmount", other)
			d.PodGoes(filepath.Dir(filepath.Dir(filepath.Dir(other))))
			ends(d, "restore")
			forgot(d, other)
		})
	}
}

// A call-out in a mount namespace that does not have the kubelet's directories forgets nothing.
func TestALingeringVolumeIsNotForgottenByWhoCannotSeeItsPod(t *testing.T) {
	d := testnode.Install(t)
	dir, pod := mountInPod(d)
	d.Must("unmount", dir)
	elsewhere := inAnotherNamespace(d, 0)
	elsewhere.OnItsNode(`mount -t tmpfs hides "$1"`, filepath.Dir(filepath.Dir(pod)))
	elsewhere.Must("init")
	lingers(d, dir)
}

// A node may have hundreds of pods that have completed. A call-out looks at some of them only, and
// each of those that are gone is forgotten all the same.
func TestOneOfManyLingeringVolumesIsForgotten(t *testing.T) {
	d := testnode.Install(t)
	dir, pod := mountInPod(d)
	d.Must("unmount", dir)
	for i := range 20 {
		other := d.KubeletDir(uidOf(i))
		d.Must("mount", other, testnode.Edit(testnode.PodUID, uidOf(i)))
		d.Must("unmount", other)
	}
	d.PodGoes(pod)
	testnode.Eventually(t, "it is forgotten", func() bool {
		d.Must("unmount", dir)
		return len(d.Records()) == 20
	})
	for _, v := range d.Status().Volumes {
		if v.State != "lingering" || v.PodUID == testnode.PodUID {
			t.Errorf("status: %+v", v)
		}
	}
}

// What a container has left does not keep the driver on the node.
func TestStopWithALingeringVolume(t *testing.T) {
	d := testnode.Install(t)
	dir, _ := mountInPod(d)
	c := startContainer(t, dir)
	d.Must("unmount", dir)
	lingers(d, dir)
	ends(d, "stop")
	if got := c.read("volume/pod.uid"); got != "" {
		t.Errorf("the container reads %q", got)
	}
	if _, err := os.Stat(d.RunDir); !os.IsNotExist(err) {
		t.Errorf("stop left %s: %v", d.RunDir, err)
	}
}

// A mount that fails leaves the container what it had.
func TestAMountThatFailsWhereAVolumeLingers(t *testing.T) {
	d := testnode.Install(t)
	defer runOf(d, 20)()
	dir, _ := mountInPod(d)
	c := startContainer(t, dir)
	d.Must("unmount", dir)
	filler := filepath.Join(d.RunDir, "filler")
	fill(t, filler)
	if a := d.Call("mount", dir, testnode.GoodOptions); a.Status != "Failure" || !strings.Contains(a.Message, "no space left on device") {
		t.Errorf("mount: %+v", a)
	}
	lingers(d, dir)
	if got := c.read("volume/pod.uid"); got != testnode.PodUID {
		t.Errorf("the container reads %q", got)
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	d.Must("mount", dir, testnode.GoodOptions)
	// There is no space to say that it lingers.
	marks := filepath.Join(d.RunDir, "lingering")
	if err := unix.Mount("marks", marks, "tmpfs", 0, "nr_inodes=1"); err != nil {
		t.Fatal(err)
	}
	d.Must("unmount", dir)
	if err := unix.Unmount(marks, 0); err != nil {
		t.Fatal(err)
	}
	testnode.Gone(t, d, dir)
	c.ends()
}
