package main_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/e2e/slowclose"
	"example.com/pod-info-fuse/e2e/stopwatch"
)

// A kubelet that starts may unmount the volume of a container that runs, and mount it anew:
// docs/limits.md.
func TestAContainerReadsOnWhenItsVolumeIsUnmounted(t *testing.T) {
	d := install(t)
	dir := d.mount()
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
	d.must("unmount", dir)
	d.must("mount", dir, edit(podUID, uidOf(1))) // which no kubelet does
	if got := c.read("volume/pod.uid"); got != "" {
		t.Errorf("the container of another pod reads %q", got)
	}
	c.ends()
	d.must("unmount", dir)
	d.forgot(dir)
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
	if left, _ := filepath.Glob(d.runDir + "/lingering/*"); len(left) > 0 {
		d.t.Errorf("there are %q", left)
	}
}

// Whatever is called next forgets a volume that nobody has any more.
func TestALingeringVolumeIsForgotten(t *testing.T) {
	for name, call := range map[string]func(d installed, dir, other string){
		"by unmount":                    func(d installed, dir, _ string) { d.must("unmount", dir) },
		"by the unmount of another":     func(d installed, _, other string) { d.must("unmount", other) },
		"by init":                       func(d installed, _, _ string) { d.must("init") },
		"by restore":                    func(d installed, _, _ string) { d.ends("restore") },
		"by init after a loss":          func(d installed, _, _ string) { d.killPair(); d.must("init") },
		"by a second mount and unmount": func(d installed, dir, _ string) { d.must("mount", dir, goodOptions); d.must("unmount", dir) },
	} {
		t.Run(name, func(t *testing.T) {
			d := install(t)
			dir := d.mount()
			c := startContainer(t, dir)
			d.must("unmount", dir)
			d.lingers(dir)
			other := t.TempDir()
			d.must("mount", other, edit(podUID, uidOf(1)))
			c.ends()
			call(d, dir, other)
			d.forgot(dir)
			d.must("unmount", other)
			gone(t, d, other)
		})
	}
}

// What a container has left does not keep the driver on the node.
func TestStopWithALingeringVolume(t *testing.T) {
	d := install(t)
	dir := d.mount()
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
	dir := d.mount()
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

// A process that the kernel does not tell about keeps what it shows, and holds nobody up.
func TestUnmountBesideAProcessThatHangsInExecve(t *testing.T) {
	d := install(t)
	dir := d.mount()
	_, end := hangInExecve(t, slowclose.Mount(t))
	watch := stopwatch.Start()
	d.must("unmount", dir)
	if took, late := watch.Stop(); took > 5*time.Second {
		t.Errorf("unmount took %v, and %v in which the machine was late", took, late)
	}
	d.lingers(dir)
	end()
	d.must("unmount", dir)
	gone(t, d, dir)
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
