package main_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/survive/volume"
)

// mountInPod mounts a volume on a directory of the kubelet's, and returns that of the pod as well.
func (d installed) mountInPod() (dir, pod string) {
	d.t.Helper()
	dir = d.kubeletDir(podUID)
	d.must("mount", dir, goodOptions)
	return dir, filepath.Dir(filepath.Dir(filepath.Dir(dir)))
}

// podGoes has the kubelet remove the directory of a pod.
func (d installed) podGoes(pod string) {
	d.t.Helper()
	if err := os.RemoveAll(pod); err != nil {
		d.t.Fatal(err)
	}
}

// A kubelet that starts may unmount the volume of a container that runs, and mount it anew:
// docs/limits.md.
func TestAContainerReadsOnWhenItsVolumeIsUnmounted(t *testing.T) {
	d := install(t)
	dir, pod := d.mountInPod()
	c := startContainer(t, dir)
	reads := func(when string) {
		t.Helper()
		for _, path := range []string{"volume/pod.uid", "subpath"} {
			if got := c.read(path); got != podUID {
				t.Errorf("%s, %s in the container reads %q", when, path, got)
			}
		}
	}
	d.must("unmount", dir)
	d.lingers(dir)
	reads("unmounted")
	if err := os.Remove(dir); err != nil {
		t.Errorf("the kubelet's rmdir: %v", err)
	}
	d.must("unmount", dir) // it repeats itself
	d.lingers(dir)
	d.killPair()
	d.must("init")
	reads("after a loss")
	d.lingers(dir)
	if err := os.Mkdir(dir, 0o750); err != nil {
		t.Fatal(err)
	}
	d.must("mount", dir, goodOptions)
	if s := d.status(); len(s.Volumes) != 1 || s.Volumes[0].State != "ok" {
		t.Errorf("status: %+v", s.Volumes)
	}
	if got := read(t, dir, "pod.uid"); got != podUID+"\n" {
		t.Errorf("mounted anew, pod.uid reads %q", got)
	}
	reads("mounted anew")
	c.ends()
	d.must("unmount", dir)
	d.lingers(dir)
	d.podGoes(pod)
	d.must("unmount", dir)
	d.forgot(dir)
}

// Of a volume outside of the kubelet's directories, nobody tells when its containers have ended.
func TestAVolumeOutsideOfTheKubeletsDirectoriesEndsWithItsMount(t *testing.T) {
	d := install(t)
	dir := d.mount()
	c := startContainer(t, dir)
	d.must("unmount", dir)
	d.forgot(dir)
	if got := c.read("volume/pod.uid"); got != "" {
		t.Errorf("in the container, pod.uid reads %q", got)
	}
	d.must("mount", dir, edit(podUID, uidOf(1)))
	if got := c.read("volume/pod.uid"); got != "" {
		t.Errorf("in the container of another pod, it reads %q", got)
	}
	d.must("unmount", dir)
	gone(t, d, dir)
}

// ends ends the container.
func (c container) ends() {
	c.t.Helper()
	c.stdin.Close()
	eventually(c.t, "the container has ended", func() bool { return !alive(c.pid) })
}

// lingers checks that of the volume there is a record, and no mount here.
func (d installed) lingers(dir string) {
	d.t.Helper()
	if s := d.status(); len(s.Volumes) != 1 || s.Volumes[0].State != "lingering" || s.Volumes[0].PodUID != podUID {
		d.t.Errorf("status: %+v", s.Volumes)
	}
	if count := mountsOn(d.t, dir); count != 0 {
		d.t.Errorf("%d mounts are on %s", count, dir)
	}
}

// forgot checks that nothing is known of the volume.
func (d installed) forgot(dir string) {
	d.t.Helper()
	for _, v := range d.status().Volumes {
		if v.Dir == dir {
			d.t.Errorf("there is %+v", v)
		}
	}
	mark := filepath.Join(d.runDir, "lingering", volume.NewID(dir).String())
	if _, err := os.Stat(mark); !os.IsNotExist(err) {
		d.t.Errorf("%s is there: %v", mark, err)
	}
}

// Whatever is called next forgets a volume whose pod is gone.
func TestALingeringVolumeIsForgotten(t *testing.T) {
	for name, call := range map[string]func(d installed, dir, other string){
		"by unmount":                func(d installed, dir, _ string) { d.must("unmount", dir) },
		"by the unmount of another": func(d installed, _, other string) { d.must("unmount", other) },
		"by the mount of another":   func(d installed, _, other string) { d.must("mount", other, edit(podUID, uidOf(1))) },
		"by init":                   func(d installed, _, _ string) { d.must("init") },
		"by restore":                func(d installed, _, _ string) { d.ends("restore") },
		"by init after a loss":      func(d installed, _, _ string) { d.killPair(); d.must("init") },
	} {
		t.Run(name, func(t *testing.T) {
			d := install(t)
			dir, pod := d.mountInPod()
			other := d.kubeletDir(uidOf(1))
			d.must("mount", other, edit(podUID, uidOf(1)))
			d.must("unmount", dir)
			d.ends("restore")
			if s := d.status(); len(s.Volumes) != 2 {
				t.Errorf("status: %+v", s.Volumes)
			}
			d.podGoes(pod)
			call(d, dir, other)
			d.forgot(dir)
			d.must("unmount", other)
			d.podGoes(filepath.Dir(filepath.Dir(filepath.Dir(other))))
			d.ends("restore")
			d.forgot(other)
		})
	}
}

// A kubelet was started in another mount namespace than before, with a root directory of its own.
// What the pair's namespace still shows of a volume, since it is the former one, is no container's.
func TestALingeringVolumeOfAKubeletsFormerNamespaceIsForgotten(t *testing.T) {
	d := install(t)
	kubelet := d.inAnotherNamespace(0)
	dir, pod := d.mountInPod()
	c := startContainer(t, dir)
	kubelet.onItsNode(`mount -t tmpfs kubelet "$1" && mkdir -p "$2"`, filepath.Dir(filepath.Dir(pod)), dir)
	kubelet.must("unmount", dir)
	if got := c.read("volume/pod.uid"); got != podUID {
		t.Errorf("in the container, pod.uid reads %q", got)
	}
	c.ends()
	kubelet.onItsNode(`rm -r "$1"`, pod)
	kubelet.must("init")
	if left := d.records(); len(left) != 0 {
		t.Errorf("records left: %q; %+v", left, kubelet.status().Volumes)
	}
}

// A call-out in a mount namespace that does not have the kubelet's directories forgets nothing.
func TestALingeringVolumeIsNotForgottenByWhoCannotSeeItsPod(t *testing.T) {
	d := install(t)
	dir, pod := d.mountInPod()
	d.must("unmount", dir)
	elsewhere := d.inAnotherNamespace(0)
	elsewhere.onItsNode(`mount -t tmpfs hides "$1"`, filepath.Dir(filepath.Dir(pod)))
	elsewhere.must("init")
	d.lingers(dir)
}

// A node may have hundreds of pods that have completed. A call-out looks at some of them only, and
// each of those that are gone is forgotten all the same.
func TestOneOfManyLingeringVolumesIsForgotten(t *testing.T) {
	d := install(t)
	dir, pod := d.mountInPod()
	d.must("unmount", dir)
	for i := range 20 {
		other := d.kubeletDir(uidOf(i))
		d.must("mount", other, edit(podUID, uidOf(i)))
		d.must("unmount", other)
	}
	d.podGoes(pod)
	eventually(t, "it is forgotten", func() bool {
		d.must("unmount", dir)
		return len(d.records()) == 20
	})
	for _, v := range d.status().Volumes {
		if v.State != "lingering" || v.PodUID == podUID {
			t.Errorf("status: %+v", v)
		}
	}
}

// What a container has left does not keep the driver on the node.
func TestStopWithALingeringVolume(t *testing.T) {
	d := install(t)
	dir, _ := d.mountInPod()
	c := startContainer(t, dir)
	d.must("unmount", dir)
	d.lingers(dir)
	d.ends("stop")
	if got := c.read("volume/pod.uid"); got != "" {
		t.Errorf("the container reads %q", got)
	}
	if _, err := os.Stat(d.runDir); !os.IsNotExist(err) {
		t.Errorf("stop left %s: %v", d.runDir, err)
	}
}

// A mount that fails leaves the container what it had.
func TestAMountThatFailsWhereAVolumeLingers(t *testing.T) {
	d := install(t)
	defer d.runOf(20)()
	dir, _ := d.mountInPod()
	c := startContainer(t, dir)
	d.must("unmount", dir)
	filler := filepath.Join(d.runDir, "filler")
	fill(t, filler)
	if a := d.call("mount", dir, goodOptions); a.Status != "Failure" || !strings.Contains(a.Message, "no space left on device") {
		t.Errorf("mount: %+v", a)
	}
	d.lingers(dir)
	if got := c.read("volume/pod.uid"); got != podUID {
		t.Errorf("the container reads %q", got)
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	d.must("mount", dir, goodOptions)
	// There is no space to say that it lingers.
	marks := filepath.Join(d.runDir, "lingering")
	if err := unix.Mount("marks", marks, "tmpfs", 0, "nr_inodes=1"); err != nil {
		t.Fatal(err)
	}
	d.must("unmount", dir)
	if err := unix.Unmount(marks, 0); err != nil {
		t.Fatal(err)
	}
	gone(t, d, dir)
	c.ends()
}

// An older version, which knows no marks, mounts a volume and leaves its mark.
func TestAVolumeThatIsMountedIsNotForgotten(t *testing.T) {
	d := install(t)
	dir, other := d.mount(), t.TempDir()
	d.must("mount", other, edit(podUID, uidOf(1)))
	mark := filepath.Join(d.runDir, "lingering") + d.rootOf(dir)
	if err := errors.Join(os.MkdirAll(filepath.Dir(mark), 0o700), os.WriteFile(mark, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	d.must("unmount", other)
	if got := read(t, dir, "pod.uid"); got != podUID+"\n" {
		t.Errorf("pod.uid reads %q", got)
	}
	if _, err := os.Stat(mark); !os.IsNotExist(err) {
		t.Errorf("%s is there: %v", mark, err)
	}
	d.must("unmount", dir)
	gone(t, d, dir)
}
