package mount

import (
	"errors"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// What a hostile server may say that a name is.
func TestNothingLeadsOutOfAMount(t *testing.T) {
	root := tmpfs(t, "root")
	host := t.TempDir()
	if err := errors.Join(
		os.MkdirAll(root+"/volume/other", 0o755), os.WriteFile(root+"/volume/file", nil, 0o600), os.WriteFile(host+"/file", nil, 0o600),
		os.Symlink(host, root+"/link"), os.Symlink("volume", root+"/inner"), os.Symlink("/proc/self/root", root+"/magic"),
		unix.Mkfifo(root+"/fifo", 0o600), unix.Mknod(root+"/device", unix.S_IFCHR, 0),
		os.Mkdir(root+"/mounted", 0o755), unix.Mount("other", root+"/mounted", "tmpfs", 0, ""), os.WriteFile(root+"/mounted/file", nil, 0o600),
		os.Mkdir(root+"/bound", 0o755), unix.Mount(root+"/volume", root+"/bound", "", unix.MS_BIND, ""),
	); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Unmount(root+"/mounted", 0); unix.Unmount(root+"/bound", 0) })
	point, err := Open(root)
	if err != nil {
		t.Fatal(err)
	}
	defer point.Close()
	for path, allowed := range map[string]bool{
		"volume": true, "volume/file": true, "volume/other": true,
		"link": false, "link/file": false, "inner": false, "inner/file": false, "magic": false, "magic/etc": false,
		"fifo": false, "device": false, "mounted": false, "mounted/file": false, "bound": false, "bound/file": false,
		"..": false, "volume/../..": false, "volume/file/x": false, "nothing": false, "": false,
	} {
		found, err := point.Below(path, time.Minute)
		if (err == nil) != allowed {
			t.Errorf("%q: %v, want it opened %v", path, err, allowed)
		}
		if err == nil {
			found.Close()
		}
	}
	if _, err := point.Below("link", time.Minute); !errors.Is(err, ErrLink) {
		t.Errorf("a link: %v", err)
	}
	inner, err := Open(root + "/volume")
	if err != nil {
		t.Fatal(err)
	}
	defer inner.Close()
	if found, err := inner.Below("file", time.Minute); err == nil {
		found.Close()
		t.Error("what is not the root of a mount was taken for one")
	}
}
