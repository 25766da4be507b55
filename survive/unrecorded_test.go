package survive_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/internal/testnode"
	"example.com/pod-info-fuse/survive/volume"
)

// What somebody may do to the run directory while volumes are mounted.
var losses = map[string]func(d testnode.Driver) error{
	"the records are removed": func(d testnode.Driver) error { return os.RemoveAll(d.RunDir + "/volumes") },
	// As rm -rf leaves it: it cannot remove what is in the node mount, or that itself.
	"everything is removed": func(d testnode.Driver) error {
		entries, err := os.ReadDir(d.RunDir)
		for _, entry := range entries {
			if entry.Name() != "fs" {
				err = errors.Join(err, os.RemoveAll(filepath.Join(d.RunDir, entry.Name())))
			}
		}
		return err
	},
	"the run directory is unmounted and removed": func(d testnode.Driver) error {
		return errors.Join(unix.Unmount(d.RunDir+"/fs", unix.MNT_DETACH), os.RemoveAll(d.RunDir))
	},
}

func TestVolumesWithoutARecordAreHealed(t *testing.T) {
	for name, lose := range losses {
		for _, heal := range []string{"init", "restore", "mount"} {
			t.Run(name+", "+heal, func(t *testing.T) {
				d := testnode.Install(t)
				dir := d.KubeletDir(testnode.PodUID)
				d.Must("mount", dir, testnode.GoodOptions)
				container := startContainer(t, dir)
				d.Pair()
				if err := lose(d); err != nil {
					t.Fatal(err)
				}
				if s := d.Status(); len(s.Volumes) != 1 || s.Volumes[0].State != "unrecorded" || s.Volumes[0].Dir != dir || s.Volumes[0].PodUID != testnode.PodUID {
					t.Errorf("status: %+v", s.Volumes)
				}
				switch heal {
				case "mount":
					other := d.KubeletDir(uidOf(1))
					d.Must("mount", other, testnode.Edit(testnode.PodUID, uidOf(1)))
					defer d.Must("unmount", other)
				case "init":
					d.Must("init")
				default:
					if output, err := d.Command("restore").CombinedOutput(); err != nil {
						t.Errorf("restore: %v: %s", err, output)
					}
				}
				if got := testnode.Read(t, dir, "pod.uid"); got != testnode.PodUID+"\n" {
					t.Errorf("the kubelet's directory: %q", got)
				}
				for _, path := range []string{"volume/pod.uid", "subpath"} {
					if got := container.read(path); got != testnode.PodUID {
						t.Errorf("%s in the container: %q", path, got)
					}
				}
				for _, v := range d.Status().Volumes {
					if v.State != "ok" {
						t.Errorf("status: %+v", v)
					}
				}
				d.Must("unmount", dir)
				if count := testnode.MountsOn(t, dir); count != 0 {
					t.Errorf("%d mounts", count)
				}
			})
		}
	}
}

// Where only some records are lost, the next init makes them anew as well.
func TestARecordThatIsLostAmongOthersIsMadeAnew(t *testing.T) {
	for _, heal := range []string{"init", "restore"} {
		t.Run(heal, func(t *testing.T) {
			d := testnode.Install(t)
			for i := range 2 {
				d.Must("mount", d.KubeletDir(uidOf(i)), testnode.Edit(testnode.PodUID, uidOf(i)))
			}
			d.Pair()
			if err := os.Remove(d.Records()[0]); err != nil {
				t.Fatal(err)
			}
			ends(d, heal)
			for _, v := range d.Status().Volumes {
				if got := testnode.Read(t, v.Dir, "pod.uid"); v.State != "ok" || got != v.PodUID+"\n" {
					t.Errorf("%+v reads %q", v, got)
				}
			}
			if records := d.Records(); len(records) != 2 {
				t.Errorf("records: %q", records)
			}
		})
	}
}

// The kubelet's root, or any directory on the way to it, may be a link, which mountinfo does not
// have.
func TestVolumesWithoutARecordAreHealedWhereTheKubeletsRootIsALink(t *testing.T) {
	for name, lose := range losses {
		for _, heal := range []string{"init", "restore"} {
			t.Run(name+", "+heal, func(t *testing.T) {
				d := testnode.Install(t)
				real := d.KubeletDir(testnode.PodUID)
				_, rest, _ := volume.SplitDir(real)
				link := filepath.Join(t.TempDir(), "kubelet")
				if err := os.Symlink(strings.TrimSuffix(real, "/pods/"+rest), link); err != nil {
					t.Fatal(err)
				}
				dir := filepath.Join(link, "pods", rest)
				d.Must("mount", dir, testnode.GoodOptions)
				d.Must("mount", dir, testnode.GoodOptions)
				if count := testnode.MountsOn(t, real); count != 1 {
					t.Errorf("%d mounts", count)
				}
				container := startContainer(t, dir)
				d.Pair()
				if err := lose(d); err != nil {
					t.Fatal(err)
				}
				if s := d.Status(); len(s.Volumes) != 1 || s.Volumes[0].State != "unrecorded" || s.Volumes[0].PodUID != testnode.PodUID {
					t.Errorf("status: %+v", s.Volumes)
				}
				if heal == "init" {
					d.Must("init")
				} else {
					ends(d, "restore")
				}
				if got := testnode.Read(t, dir, "pod.uid"); got != testnode.PodUID+"\n" {
					t.Errorf("the kubelet's directory: %q", got)
				}
				if got := container.read("volume/pod.uid"); got != testnode.PodUID {
					t.Errorf("in the container: %q", got)
				}
				container.ends()
				d.Must("unmount", dir)
				if count := testnode.MountsOn(t, real); count != 0 {
					t.Errorf("%d mounts", count)
				}
				d.PodGoes(filepath.Dir(filepath.Dir(filepath.Dir(real))))
				d.Must("init")
				if left := d.Records(); len(left) != 0 {
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
			d := testnode.Install(t)
			dir := d.Mount()
			kubelets := d.KubeletDir(uidOf(1))
			d.Must("mount", kubelets, testnode.Edit(testnode.PodUID, uidOf(1)))
			d.Pair()
			if err := lose(d); err != nil {
				t.Fatal(err)
			}
			for _, first := range []bool{true, false} {
				output, err := d.Command("restore").CombinedOutput()
				output = append([]byte("\n"), output...)
				line := "not healed: " + dir + ": its record is lost, and its path does not tell what it is for; unmount it, or delete its pod\n"
				if err == nil || strings.Count(string(output), dir) != 1 || !strings.Contains(string(output), line) || strings.Contains(string(output), "nothing was dead") {
					t.Errorf("restore: %v: %s", err, output)
				}
				if strings.Contains(string(output), "\nhealed: "+kubelets) != first {
					t.Errorf("restore tells of %s, when it is called for the first time or not: %s", kubelets, output)
				}
			}
			if got := testnode.Read(t, kubelets, "pod.uid"); got != uidOf(1)+"\n" {
				t.Errorf("the kubelet's volume reads %q", got)
			}
			d.Must("unmount", dir)
			if output, err := d.Command("restore").CombinedOutput(); err != nil || string(output) != "nothing was dead\n" {
				t.Errorf("restore: %v: %s", err, output)
			}
			d.Must("unmount", kubelets)
		})
	}
}

// A process that may not ask whether it is in the node's mount namespace may see another node's
// mounts: it makes no records of them.
func TestWhoMayNotAskAboutItsNamespaceMakesNoRecords(t *testing.T) {
	d := testnode.Install(t)
	dir := d.KubeletDir(testnode.PodUID)
	d.Must("mount", dir, testnode.GoodOptions)
	if err := losses["the records are removed"](d); err != nil {
		t.Fatal(err)
	}
	output, err := d.Execute([]string{"setpriv", "--bounding-set", "-sys_ptrace", d.Path, "restore"}).CombinedOutput()
	if err == nil || !strings.Contains(string(output), "or the kernel does not tell") || len(d.Records()) != 0 {
		t.Errorf("restore: %v: %s; records %q", err, output, d.Records())
	}
	if output, err := d.Command("restore").CombinedOutput(); err != nil || len(d.Records()) != 1 {
		t.Errorf("restore on the node: %v: %s", err, output)
	}
	d.Must("unmount", dir)
}

// Nobody believes everybody's mounts in our own namespace either.
func TestAUsersMountIsNoVolumeOfOurs(t *testing.T) {
	d := testnode.Install(t)
	volume := d.Mount()
	root := rootOf(d, volume)
	// As fusermount mounts it for an ordinary user: with his number among the options.
	inner, dir := t.TempDir(), d.KubeletDir(uidOf(1))
	if err := (&forgedFS{RawFileSystem: fuse.NewDefaultRawFileSystem()}).mount(inner, d.Name, "pod-info-fuse", "user_id=1000"); err != nil {
		t.Fatal(err)
	}
	defer unix.Unmount(inner, unix.MNT_DETACH)
	if err := unix.Mount(inner+root, dir, "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	defer unix.Unmount(dir, unix.MNT_DETACH)
	before := deviceOf(t, dir)
	d.KillPair()
	if output, err := d.Command("restore").CombinedOutput(); err != nil || strings.Contains(string(output), dir) {
		t.Errorf("restore: %v: %s", err, output)
	}
	if after := deviceOf(t, dir); after != before {
		t.Errorf("the user's mount of device %d was replaced by %d", before, after)
	}
	if s := d.Status(); len(s.Volumes) != 1 {
		t.Errorf("status: %+v", s.Volumes)
	}
}

func TestAWatchHasLostRecordsMadeAnew(t *testing.T) {
	d := testnode.Place(t)
	w := d.Watch(testnode.Binary, "install")
	w.IsReady()
	dir := d.KubeletDir(testnode.PodUID)
	d.Must("mount", dir, testnode.GoodOptions)
	w.Counts(map[string]float64{`volumes{state="ok"}`: 1, `volumes{state="unrecorded"}`: 0})
	if err := os.Remove(d.Records()[0]); err != nil {
		t.Fatal(err)
	}
	w.Counts(map[string]float64{`volumes{state="ok"}`: 0, `volumes{state="unrecorded"}`: 1})
	// The page readyz says so, too, but maybe for a moment only.
	w.Logs("1 volumes are mounted, but their records are lost")
	w.IsReady()
	w.Counts(map[string]float64{`volumes{state="ok"}`: 1, `volumes{state="unrecorded"}`: 0})
	if got := testnode.Read(t, dir, "pod.uid"); got != testnode.PodUID+"\n" {
		t.Errorf("pod.uid is %q", got)
	}
}
