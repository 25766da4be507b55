package mount

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// A container can rename the directories that its mounts are below, and put links
// in their place that lead us out of it.
func TestATreeIsNotPutWhereALinkLeads(t *testing.T) {
	for name, plant := range map[string]func(base string) error{
		"nothing": func(string) error { return nil },
		"a link on the way": func(base string) error {
			return errors.Join(os.Rename(base+"/x", base+"/y"), os.Symlink("victim", base+"/x"))
		},
		"a link in the mount point's place": func(base string) error {
			return errors.Join(os.Rename(base+"/x", base+"/y"), os.Mkdir(base+"/x", 0o755), os.Symlink("../victim/volume", base+"/x/volume"))
		},
		"a magic link": func(base string) error {
			return errors.Join(os.Rename(base+"/x", base+"/y"), os.Symlink("/proc/1/root"+base+"/victim", base+"/x"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			base := tmpfs(t, "base")
			dirs := map[string]string{"dead": base + "/x/volume", "victim": base + "/victim/volume"}
			for source, dir := range dirs {
				if err := errors.Join(os.MkdirAll(dir, 0o755), unix.Mount(source, dir, "tmpfs", 0, "")); err != nil {
					t.Fatal(err)
				}
			}
			tree := copyOf(t, tmpfs(t, "living"), (*Point).Clone)
			device := deviceOf(t, dirs["dead"])
			if err := plant(base); err != nil {
				t.Fatal(err)
			}
			err := Own().Do(func() error { return tree.Replace(dirs["dead"], 1, device) })
			if (err == nil) != (name == "nothing") {
				t.Errorf("replace: %v", err)
			}
			if got := sourceOf(t, dirs["victim"]); got != "victim" {
				t.Errorf("the victim is now %q", got)
			}
			if err == nil && sourceOf(t, dirs["dead"]) != "living" {
				t.Errorf("the mount is still %q", sourceOf(t, dirs["dead"]))
			}
		})
	}
}

// Two volumes that are healed at once show the same file system.
func TestACopyIsPrivate(t *testing.T) {
	living := tmpfs(t, "living")
	if err := unix.Mount("", living, "", unix.MS_SHARED, ""); err != nil {
		t.Fatal(err)
	}
	for name, clone := range map[string]func(*Point) (*Tree, error){"Clone": (*Point).Clone, "CloneAll": (*Point).CloneAll} {
		t.Run(name, func(t *testing.T) {
			tree := copyOf(t, living, clone)
			path := tmpfs(t, "dead")
			device := deviceOf(t, path)
			if err := Own().Do(func() error { return tree.Replace(path, 1, device) }); err != nil {
				t.Fatal(err)
			}
			if err := unix.Mount("more", path, "tmpfs", 0, ""); err != nil {
				t.Fatal(err)
			}
			if got := sourceOf(t, living); got != "living" {
				t.Errorf("what is mounted on the copy is mounted on the original: %q", got)
			}
			if err := unix.Unmount(path, 0); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// A container's volume below another one may have mountPropagation: HostToContainer.
func TestWhatIsBelowACopyIsInItsPeerGroup(t *testing.T) {
	top := tmpfs(t, "top")
	below := filepath.Join(top, "below")
	err := errors.Join(os.Mkdir(below, 0o755), unix.Mount("below", below, "tmpfs", 0, ""), unix.Mount("", below, "", unix.MS_SHARED, ""),
		os.Mkdir(filepath.Join(below, "later"), 0o755))
	if err != nil {
		t.Fatal(err)
	}
	tree := copyOf(t, top, (*Point).CloneAll)
	on, err := Open(tmpfs(t, "elsewhere"))
	if err != nil {
		t.Fatal(err)
	}
	defer on.Close()
	if err := tree.Attach(on); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("later", filepath.Join(below, "later"), "tmpfs", 0, ""); err != nil {
		t.Fatal(err)
	}
	if got := sourceOf(t, filepath.Join(on.Path, "below/later")); got != "later" {
		t.Errorf("in the copy, there is %q, want what was mounted later", got)
	}
}

// copyOf copies the mount on a path.
func copyOf(t *testing.T, path string, clone func(*Point) (*Tree, error)) *Tree {
	t.Helper()
	point, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer point.Close()
	tree, err := clone(point)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tree.Close)
	return tree
}

func deviceOf(t *testing.T, path string) uint64 {
	t.Helper()
	point, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer point.Close()
	return point.Device()
}

func sourceOf(t *testing.T, path string) string {
	t.Helper()
	point, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer point.Close()
	info, err := point.Info()
	if err != nil || info == nil {
		t.Fatal(info, err)
	}
	return info.Source
}

func TestNoLinkIsFollowedBelowTheBase(t *testing.T) {
	root := t.TempDir()
	if err := errors.Join(
		os.MkdirAll(root+"/real/a/b", 0o755), os.Symlink("real", root+"/base"),
		os.Symlink("a", root+"/real/link"), os.Symlink("b", root+"/real/a/link"), os.WriteFile(root+"/real/file", nil, 0o600),
	); err != nil {
		t.Fatal(err)
	}
	for rest, want := range map[string]error{
		"a/b": nil, "link/b": ErrLink, "a/link": ErrLink, "file/b": unix.ENOTDIR, "no/b": os.ErrNotExist, "a/../link/b": ErrLink,
	} {
		point, err := OpenBelow(filepath.Join(root, "base"), rest)
		if !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", rest, err, want)
		}
		if err == nil {
			point.Close()
		}
	}
}
