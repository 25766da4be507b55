package survive_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/internal/testnode"
)

// badRoot is a driver whose daemon somebody has taken over. It has had the kernel mark a root bad
// for which statx(2) is EIO from then on: that of the node mount ("root"), or that of the volume
// on dir ("volume"). A container has the volume, and another pod has one, too.
func badRoot(t *testing.T, which string) (d testnode.Driver, dir, other string, c container) {
	t.Helper()
	d = testnode.Install(t)
	dir, other, c = makeBadRoot(d, which)
	return d, dir, other, c
}

func makeBadRoot(d testnode.Driver, which string) (dir, other string, c container) {
	t := d.T
	t.Helper()
	honest := testnode.CopyOf(t, d.Path)
	hostile(d, "files")
	dir, other = d.KubeletDir(testnode.PodUID), d.KubeletDir(uidOf(1))
	d.Must("mount", dir, testnode.GoodOptions)
	d.Must("mount", other, testnode.Edit(testnode.PodUID, uidOf(1)))
	c = startContainer(t, dir)
	d.Pair()
	if _, err := os.Stat(filepath.Join(dir, which)); err == nil {
		t.Fatalf("%s/%s is there", dir, which)
	}
	bad := map[string]string{"root": filepath.Join(d.RunDir, "fs"), "volume": dir}[which]
	if _, err := os.Stat(bad); !errors.Is(err, unix.EIO) {
		t.Fatalf("the root of %s is not bad: %v", bad, err)
	}
	// Only root replaces the binary: the call-outs are those of an honest version.
	d.ReplaceBinary(honest)
	return dir, other, c
}

var badRoots = map[string]string{"root": "the node mount's root", "volume": "a volume's root"}

// What root does in the place of a pod's kubelet or of an operator works all the same, and heals or
// ends what is bad.
func TestARootThatIsBadKeepsNobodyFromTheNode(t *testing.T) {
	for which, name := range badRoots {
		t.Run(name+", status", func(t *testing.T) {
			d, dir, _, _ := badRoot(t, which)
			s := d.Status()
			if (s.Mount.State == "dead") != (which == "root") {
				t.Errorf("the node mount is %s", s.Mount.State)
			}
			for _, v := range s.Volumes {
				if dead := which == "root" || v.Dir == dir; (v.State == "dead") != dead {
					t.Errorf("%s is %s", v.Dir, v.State)
				}
			}
		})
		t.Run(name+", unmount", func(t *testing.T) {
			d, dir, other, _ := badRoot(t, which)
			for _, dir := range []string{dir, other} {
				d.Must("unmount", dir)
				if count := testnode.MountsOn(t, dir); count != 0 {
					t.Errorf("%d mounts are on %s", count, dir)
				}
			}
		})
		t.Run(name+", stop", func(t *testing.T) {
			d, dir, other, _ := badRoot(t, which)
			active, standby := d.Pair()
			if output, err := d.Command("stop").CombinedOutput(); err == nil || !strings.Contains(string(output), "volumes are in use") {
				t.Errorf("stop: %v: %s", err, output)
			}
			ends(d, "stop", "--force")
			if _, err := os.Stat(d.RunDir); !os.IsNotExist(err) || testnode.Alive(active) || testnode.Alive(standby) {
				t.Errorf("the processes live: %v, %v; the run directory: %v", testnode.Alive(active), testnode.Alive(standby), err)
			}
			for _, dir := range []string{dir, other} {
				if count := testnode.MountsOn(t, dir); count != 0 {
					t.Errorf("%d mounts are on %s", count, dir)
				}
			}
		})
		for _, command := range []string{"restore", "mount", "init"} {
			if command == "init" && which == "volume" {
				continue // it looks at no volume of a daemon that answers
			}
			t.Run(name+", "+command, func(t *testing.T) {
				d, dir, other, c := badRoot(t, which)
				switch command {
				case "mount":
					d.Must("mount", dir, testnode.GoodOptions)
				case "init":
					d.Must("init")
				default:
					ends(d, "restore")
				}
				for dir, uid := range map[string]string{dir: testnode.PodUID, other: uidOf(1)} {
					if got := testnode.Read(t, dir, "pod.uid"); got != uid+"\n" {
						t.Errorf("%s reads %q", dir, got)
					}
				}
				if command == "mount" && which == "volume" {
					ends(d, "stop", "--force") // the container's is for restore, which starts another daemon
					return
				}
				if got := c.read("volume/pod.uid"); got != testnode.PodUID {
					t.Errorf("in the container: %q", got)
				}
				for _, v := range d.Status().Volumes {
					if v.State != "ok" {
						t.Errorf("%s is %s", v.Dir, v.State)
					}
				}
			})
		}
	}
}
