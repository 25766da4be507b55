package main_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/survive/volume"
)

// kubeletDir makes a directory for a volume such as a kubelet makes.
func (d installed) kubeletDir(uid string) string {
	d.t.Helper()
	dir := filepath.Join(d.t.TempDir(), "pods", uid, "volumes", filepath.Base(d.runDir), "info")
	if err := os.MkdirAll(dir, 0o750); err != nil {
		d.t.Fatal(err)
	}
	return dir
}

// What somebody may do to the run directory while volumes are mounted.
var losses = map[string]func(d installed) error{
	"the records are removed": func(d installed) error { return os.RemoveAll(d.runDir + "/volumes") },
	// As rm -rf leaves it: it cannot remove what is in the node mount, or that itself.
	"everything is removed": func(d installed) error {
		entries, err := os.ReadDir(d.runDir)
		for _, entry := range entries {
			if entry.Name() != "fs" {
				err = errors.Join(err, os.RemoveAll(filepath.Join(d.runDir, entry.Name())))
			}
		}
		return err
	},
	"the run directory is unmounted and removed": func(d installed) error {
		return errors.Join(unix.Unmount(d.runDir+"/fs", unix.MNT_DETACH), os.RemoveAll(d.runDir))
	},
}

func TestVolumesWithoutARecordAreHealed(t *testing.T) {
	for name, lose := range losses {
		for _, heal := range []string{"init", "restore", "mount"} {
			t.Run(name+", "+heal, func(t *testing.T) {
				d := install(t)
				dir := d.kubeletDir(podUID)
				d.must("mount", dir, goodOptions)
				container := startContainer(t, dir)
				d.pair()
				if err := lose(d); err != nil {
					t.Fatal(err)
				}
				if s := d.status(); len(s.Volumes) != 1 || s.Volumes[0].State != "unrecorded" || s.Volumes[0].Dir != dir || s.Volumes[0].PodUID != podUID {
					t.Errorf("status: %+v", s.Volumes)
				}
				switch heal {
				case "mount":
					other := d.kubeletDir(uidOf(1))
					d.must("mount", other, edit(podUID, uidOf(1)))
					defer d.must("unmount", other)
				case "init":
					d.must("init")
				default:
					if output, err := d.command("restore").CombinedOutput(); err != nil {
						t.Errorf("restore: %v: %s", err, output)
					}
				}
				if got := read(t, dir, "pod.uid"); got != podUID+"\n" {
					t.Errorf("the kubelet's directory: %q", got)
				}
				for _, path := range []string{"volume/pod.uid", "subpath"} {
					if got := container.read(path); got != podUID {
						t.Errorf("%s in the container: %q", path, got)
					}
				}
				for _, v := range d.status().Volumes {
					if v.State != "ok" {
						t.Errorf("status: %+v", v)
					}
				}
				d.must("unmount", dir)
				if count := mountsOn(t, dir); count != 0 {
					t.Errorf("%d mounts", count)
				}
			})
		}
	}
}

// The kubelet's root, or any directory on the way to it, may be a link, which mountinfo does not have.
func TestVolumesWithoutARecordAreHealedWhereTheKubeletsRootIsALink(t *testing.T) {
	for name, lose := range losses {
		for _, heal := range []string{"init", "restore"} {
			t.Run(name+", "+heal, func(t *testing.T) {
				d := install(t)
				real := d.kubeletDir(podUID)
				_, rest, _ := volume.SplitDir(real)
				link := filepath.Join(t.TempDir(), "kubelet")
				if err := os.Symlink(strings.TrimSuffix(real, "/pods/"+rest), link); err != nil {
					t.Fatal(err)
				}
				dir := filepath.Join(link, "pods", rest)
				d.must("mount", dir, goodOptions)
				d.must("mount", dir, goodOptions)
				if count := mountsOn(t, real); count != 1 {
					t.Errorf("%d mounts", count)
				}
				container := startContainer(t, dir)
				d.pair()
				if err := lose(d); err != nil {
					t.Fatal(err)
				}
				if s := d.status(); len(s.Volumes) != 1 || s.Volumes[0].State != "unrecorded" || s.Volumes[0].PodUID != podUID {
					t.Errorf("status: %+v", s.Volumes)
				}
				if heal == "init" {
					d.must("init")
				} else {
					d.ends("restore")
				}
				if got := read(t, dir, "pod.uid"); got != podUID+"\n" {
					t.Errorf("the kubelet's directory: %q", got)
				}
				if got := container.read("volume/pod.uid"); got != podUID {
					t.Errorf("in the container: %q", got)
				}
				container.ends()
				d.must("unmount", dir)
				if count := mountsOn(t, real); count != 0 {
					t.Errorf("%d mounts", count)
				}
				d.podGoes(filepath.Dir(filepath.Dir(filepath.Dir(real))))
				d.must("init")
				if left := d.records(); len(left) != 0 {
					t.Errorf("records left: %q", left)
				}
			})
		}
	}
}

// A directory that is not of the kubelet's form does not tell what a volume is for, and restore
// does not say that all is well.
func TestRestoreNamesAVolumeWhoseRecordItCannotMake(t *testing.T) {
	for name, lose := range losses {
		t.Run(name, func(t *testing.T) {
			d := install(t)
			dir := d.mount()
			kubelets := d.kubeletDir(uidOf(1))
			d.must("mount", kubelets, edit(podUID, uidOf(1)))
			d.pair()
			if err := lose(d); err != nil {
				t.Fatal(err)
			}
			for _, first := range []bool{true, false} {
				output, err := d.command("restore").CombinedOutput()
				output = append([]byte("\n"), output...)
				line := "not healed: " + dir + ": its record is lost, and its path does not tell what it is for; unmount it, or delete its pod\n"
				if err == nil || strings.Count(string(output), dir) != 1 || !strings.Contains(string(output), line) || strings.Contains(string(output), "nothing was dead") {
					t.Errorf("restore: %v: %s", err, output)
				}
				if strings.Contains(string(output), "\nhealed: "+kubelets) != first {
					t.Errorf("restore tells of %s, when it is called for the first time or not: %s", kubelets, output)
				}
			}
			if got := read(t, kubelets, "pod.uid"); got != uidOf(1)+"\n" {
				t.Errorf("the kubelet's volume reads %q", got)
			}
			d.must("unmount", dir)
			if output, err := d.command("restore").CombinedOutput(); err != nil || string(output) != "nothing was dead\n" {
				t.Errorf("restore: %v: %s", err, output)
			}
			d.must("unmount", kubelets)
		})
	}
}

// Nobody believes everybody's mounts in our own namespace either.
func TestAUsersMountIsNoVolumeOfOurs(t *testing.T) {
	d := install(t)
	volume := d.mount()
	root := d.rootOf(volume)
	// As fusermount mounts it for an ordinary user: with his number among the options.
	inner, dir := t.TempDir(), d.kubeletDir(uidOf(1))
	if err := (&forgedFS{RawFileSystem: fuse.NewDefaultRawFileSystem()}).mount(inner, d.name, "pod-info-fuse", "user_id=1000"); err != nil {
		t.Fatal(err)
	}
	defer unix.Unmount(inner, unix.MNT_DETACH)
	if err := unix.Mount(inner+root, dir, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	defer unix.Unmount(dir, unix.MNT_DETACH)
	before := deviceOf(t, dir)
	d.killPair()
	if output, err := d.command("restore").CombinedOutput(); err != nil || strings.Contains(string(output), dir) {
		t.Errorf("restore: %v: %s", err, output)
	}
	if after := deviceOf(t, dir); after != before {
		t.Errorf("the user's mount of device %d was replaced by %d", before, after)
	}
	if s := d.status(); len(s.Volumes) != 1 {
		t.Errorf("status: %+v", s.Volumes)
	}
}

func TestAWatchHasLostRecordsMadeAnew(t *testing.T) {
	d := place(t)
	w := d.watch(binary, "install")
	w.isReady()
	dir := d.kubeletDir(podUID)
	d.must("mount", dir, goodOptions)
	w.counts(map[string]float64{`volumes{state="ok"}`: 1, `volumes{state="unrecorded"}`: 0})
	if err := os.Remove(d.records()[0]); err != nil {
		t.Fatal(err)
	}
	w.counts(map[string]float64{`volumes{state="ok"}`: 0, `volumes{state="unrecorded"}`: 1})
	// The page readyz says so, too, but maybe for a moment only.
	w.logs("1 volumes are mounted, but their records are lost")
	w.isReady()
	w.counts(map[string]float64{`volumes{state="ok"}`: 1, `volumes{state="unrecorded"}`: 0})
	if got := read(t, dir, "pod.uid"); got != podUID+"\n" {
		t.Errorf("pod.uid is %q", got)
	}
}
