package main_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// badRoot is a driver whose daemon somebody has taken over. It has had the kernel mark a root bad
// for which statx(2) is EIO from then on: that of the node mount ("root"), or that of the volume
// on dir ("volume"). A container has the volume, and another pod has one, too.
func badRoot(t *testing.T, which string) (d installed, dir, other string, c container) {
	t.Helper()
	d = install(t)
	dir, other, c = d.badRoot(which)
	return d, dir, other, c
}

func (d installed) badRoot(which string) (dir, other string, c container) {
	t := d.t
	t.Helper()
	honest := copyOf(t, d.path)
	d.hostile("files")
	dir, other = d.kubeletDir(podUID), d.kubeletDir(uidOf(1))
	d.must("mount", dir, goodOptions)
	d.must("mount", other, edit(podUID, uidOf(1)))
	c = startContainer(t, dir)
	d.pair()
	if _, err := os.Stat(filepath.Join(dir, which)); err == nil {
		t.Fatalf("%s/%s is there", dir, which)
	}
	bad := map[string]string{"root": filepath.Join(d.runDir, "fs"), "volume": dir}[which]
	if _, err := os.Stat(bad); !errors.Is(err, unix.EIO) {
		t.Fatalf("the root of %s is not bad: %v", bad, err)
	}
	// Only root replaces the binary: the call-outs are those of an honest version.
	d.replaceBinary(honest)
	return dir, other, c
}

var badRoots = map[string]string{"root": "the node mount's root", "volume": "a volume's root"}

// What root does in the place of a pod's kubelet or of an operator works all the same, and heals or
// ends what is bad.
func TestARootThatIsBadKeepsNobodyFromTheNode(t *testing.T) {
	for which, name := range badRoots {
		t.Run(name+", status", func(t *testing.T) {
			d, dir, _, _ := badRoot(t, which)
			s := d.status()
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
				d.must("unmount", dir)
				if count := mountsOn(t, dir); count != 0 {
					t.Errorf("%d mounts are on %s", count, dir)
				}
			}
		})
		t.Run(name+", stop", func(t *testing.T) {
			d, dir, other, _ := badRoot(t, which)
			active, standby := d.pair()
			if output, err := d.command("stop").CombinedOutput(); err == nil || !strings.Contains(string(output), "volumes are in use") {
				t.Errorf("stop: %v: %s", err, output)
			}
			d.ends("stop", "--force")
			if _, err := os.Stat(d.runDir); !os.IsNotExist(err) || alive(active) || alive(standby) {
				t.Errorf("the processes live: %v, %v; the run directory: %v", alive(active), alive(standby), err)
			}
			for _, dir := range []string{dir, other} {
				if count := mountsOn(t, dir); count != 0 {
					t.Errorf("%d mounts are on %s", count, dir)
				}
			}
		})
		for _, has := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, mount in a namespace that has the node mount: %v", name, has), func(t *testing.T) {
				d := install(t)
				elsewhere := d.inAnotherNamespace(0)
				_, other, c := d.badRoot(which)
				if has {
					elsewhere = d.inAnotherNamespace(0)
				}
				dir := t.TempDir()
				elsewhere.must("mount", dir, edit(podUID, uidOf(2)))
				if got := elsewhere.onItsNode(`cat "$1/pod.uid"`, dir); got != uidOf(2)+"\n" {
					t.Errorf("it reads %q", got)
				}
				elsewhere.must("unmount", dir)
				d.ends("restore")
				if got := read(t, other, "pod.uid"); got != uidOf(1)+"\n" {
					t.Errorf("%s reads %q", other, got)
				}
				if got := c.read("volume/pod.uid"); got != podUID {
					t.Errorf("in the container: %q", got)
				}
			})
		}
		for _, command := range []string{"restore", "mount", "init"} {
			if command == "init" && which == "volume" {
				continue // it looks at no volume of a daemon that answers
			}
			t.Run(name+", "+command, func(t *testing.T) {
				d, dir, other, c := badRoot(t, which)
				switch command {
				case "mount":
					d.must("mount", dir, goodOptions)
				case "init":
					d.must("init")
				default:
					d.ends("restore")
				}
				for dir, uid := range map[string]string{dir: podUID, other: uidOf(1)} {
					if got := read(t, dir, "pod.uid"); got != uid+"\n" {
						t.Errorf("%s reads %q", dir, got)
					}
				}
				if command == "mount" && which == "volume" {
					d.ends("stop", "--force") // the container's is for restore, which starts another daemon
					return
				}
				if got := c.read("volume/pod.uid"); got != podUID {
					t.Errorf("in the container: %q", got)
				}
				for _, v := range d.status().Volumes {
					if v.State != "ok" {
						t.Errorf("%s is %s", v.Dir, v.State)
					}
				}
			})
		}
	}
}
