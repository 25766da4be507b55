package survive_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/internal/testnode"
)

func TestBadMountIsAClearFailureAndLeavesNothing(t *testing.T) {
	type row struct {
		problem string
		args    func(dir string) []string
		message string
	}
	options := func(problem, options, message string) row {
		return row{problem, func(dir string) []string { return []string{dir, options} }, message}
	}
	for _, row := range []row{
		{"no argument", func(string) []string { return nil }, "needs 2 arguments (directory, options), has 0"},
		{"no options", func(dir string) []string { return []string{dir} }, "has 1"},
		{"three arguments", func(dir string) []string { return []string{dir, "/dev/sda", testnode.GoodOptions} }, "has 3"},
		options("options are not JSON", "pod.uid="+testnode.PodUID, "not a JSON object of strings"),
		options("options are a list", "["+testnode.GoodOptions+"]", "not a JSON object of strings"),
		options("a value is a number", testnode.Edit(`"rw"`, `1`), "not a JSON object of strings"),
		options("no pod.uid", testnode.Edit(testnode.UIDOption+",", ""), `"kubernetes.io/pod.uid" is missing`),
		options("empty pod.uid", testnode.Edit(testnode.PodUID, ""), `"" is not a pod's UID`),
		options("pod.uid is a path", testnode.Edit(testnode.PodUID, "../../etc/passwd"), `is not a pod's UID`),
		options("pod.uid ends in a newline", testnode.Edit(testnode.PodUID, testnode.PodUID+`\n`), `is not a pod's UID`),
		options("pod.uid has 300 characters", testnode.Edit(testnode.PodUID, strings.Repeat("a", 300)), `is not a pod's UID`),
		options("only a look-alike of pod.uid", testnode.Edit("kubernetes.io/pod.uid", "kubernete\u017f.io/pod.uid"), "kubernete\u017f.io/pod.uid"),
		options("a look-alike of pod.uid beside it", testnode.Edit("{", "{\"kubernete\u017f.io/pod.uid\":\""+testnode.PodUID+"\","), "kubernete\u017f.io/pod.uid"),
		options("an unknown option", testnode.Edit("{", `{"colour":"blue",`), `"colour" is not known`),
		{"relative directory", func(dir string) []string { return []string{"volume", testnode.GoodOptions} }, "not an absolute path"},
		{"directory with a detour", func(dir string) []string { return []string{dir + "/../volume", testnode.GoodOptions} }, "shortest form"},
		{"the root directory", func(dir string) []string { return []string{"/", testnode.GoodOptions} }, "cannot be a volume"},
		{"missing directory", func(dir string) []string { return []string{dir + "-2", testnode.GoodOptions} }, "does not exist"},
		{"a file", func(dir string) []string { return []string{dir + ".file", testnode.GoodOptions} }, "not a directory"},
		{"a symbolic link", func(dir string) []string { return []string{dir + ".link", testnode.GoodOptions} }, "symbolic link"},
		{"directory is not UTF-8", func(dir string) []string { return []string{dir + ".\xff", testnode.GoodOptions} }, "not UTF-8"},
		{"directory of another pod", func(dir string) []string {
			other := filepath.Join(filepath.Dir(dir), "pods/9c5b0b2b-0f7e-4a0e-8f0a-5d8c6b7a9e1f/volumes/example.com~pod-info-fuse/info")
			os.MkdirAll(other, 0o755)
			return []string{other, testnode.GoodOptions}
		}, "belongs to pod"},
	} {
		t.Run(row.problem, func(t *testing.T) {
			d := testnode.Install(t)
			dir := filepath.Join(t.TempDir(), "volume")
			for _, err := range []error{
				os.Mkdir(dir, 0o755), os.WriteFile(dir+".file", nil, 0o600), os.Symlink(dir, dir+".link"), os.Mkdir(dir+".\xff", 0o755),
			} {
				if err != nil {
					t.Fatal(err)
				}
			}
			args := append([]string{"mount"}, row.args(dir)...)
			if a := d.Call(args...); a.Status != "Failure" || !strings.Contains(a.Message, row.message) {
				t.Errorf("answer %+v, want a Failure with %q", a, row.message)
			}
			testnode.LeftNothing(t, d, dir)
		})
	}
}

// What is mounted there would cover what the driver needs, and a process that serves would wait for
// itself.
func TestTheRunDirectoryIsNoVolume(t *testing.T) {
	d := testnode.Install(t)
	dir := d.Mount()
	for _, bad := range []string{
		d.RunDir, filepath.Join(d.RunDir, "fs"), filepath.Join(d.RunDir, "volumes"), filepath.Dir(d.RunDir), "/run",
	} {
		before := testnode.MountsOn(t, bad)
		for _, args := range [][]string{{"mount", bad, testnode.Edit(testnode.PodUID, uidOf(1))}, {"unmount", bad}} {
			if a := d.CallThatEnds(args...); a.Status != "Failure" || !strings.Contains(a.Message, "cannot be a volume") {
				t.Errorf("%s: %+v", args[:2], a)
			}
		}
		if after := testnode.MountsOn(t, bad); after != before {
			t.Errorf("%s has %d mounts, and had %d", bad, after, before)
		}
	}
	if got := testnode.Read(t, dir, "pod.uid"); got != testnode.PodUID+"\n" {
		t.Errorf("another volume reads %q", got)
	}
	active, standby := d.Pair()
	d.StopPair()
	if a := d.CallThatEnds("unmount", filepath.Join(d.RunDir, "fs/volume/below")); a.Status != "Failure" || !strings.Contains(a.Message, "cannot be a volume") {
		t.Errorf("below the daemon's own file system, while that is stopped: %+v", a)
	}
	resume(t, active, standby)
}

func TestMountNeedsRoot(t *testing.T) {
	d := testnode.Install(t)
	dir := t.TempDir()
	for _, path := range []string{dir, filepath.Dir(dir), filepath.Dir(d.Path)} {
		if err := os.Chmod(path, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	command := d.Command("mount", dir, testnode.GoodOptions)
	command.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 1000, Gid: 1000}}
	if a := d.Run(command); a.Status != "Failure" || !strings.Contains(a.Message, "root") {
		t.Errorf("as uid 1000: %+v", a)
	}
	testnode.LeftNothing(t, d, dir)
}

func TestMountNeedsDevFuse(t *testing.T) {
	d := testnode.Install(t)
	dir := t.TempDir()
	// A mount name space with a /dev that has nothing but null.
	script := `mount --bind /proc/$$ /proc/1 && mount -t tmpfs none /dev && mknod -m 666 /dev/null c 1 3 && exec "$1" mount "$2" "$3"`
	command := exec.Command("unshare", "--mount", "sh", "-c", script, "sh", d.Path, dir, testnode.GoodOptions)
	if a := d.Run(command); a.Status != "Failure" || !strings.Contains(a.Message, "/dev/fuse") || !strings.Contains(a.Message, "modprobe fuse") {
		t.Errorf("without /dev/fuse: %+v", a)
	}
	testnode.LeftNothing(t, d, dir)
}

func TestInitNeedsNothing(t *testing.T) {
	d := testnode.Install(t)
	// As in the container of a control plane: no root, no /run, no /dev, no /proc.
	script := `for dir in /run /dev /proc; do mount -t tmpfs -o ro none $dir; done; exec setpriv --reuid 1000 --regid 1000 --clear-groups "$1" init`
	for parent := filepath.Dir(d.Path); strings.HasPrefix(parent, os.TempDir()+"/"); parent = filepath.Dir(parent) {
		if err := os.Chmod(parent, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	a := d.Run(exec.Command("unshare", "--mount", "sh", "-c", script, "sh", d.Path))
	if a.Status != "Success" || len(a.Capabilities) != 5 {
		t.Fatalf("init: %+v", a)
	}
	for name, value := range a.Capabilities {
		if value {
			t.Errorf("capability %s is true", name)
		}
	}
}

func TestMountLeavesOthersMountsAlone(t *testing.T) {
	d := testnode.Install(t)
	dir := t.TempDir()
	if err := unix.Mount("something", dir, "tmpfs", 0, ""); err != nil {
		t.Fatal(err)
	}
	defer unix.Unmount(dir, unix.MNT_DETACH)
	if a := d.Call("mount", dir, testnode.GoodOptions); a.Status != "Failure" || !strings.Contains(a.Message, "something else") {
		t.Errorf("mount: %+v", a)
	}
	if testnode.MountsOn(t, dir) != 1 || len(d.Records()) != 0 {
		t.Errorf("%d mounts, records %q", testnode.MountsOn(t, dir), d.Records())
	}
}

func TestMountOfWhatIsMountedAlready(t *testing.T) {
	d := testnode.Install(t)
	dir := d.Mount()
	d.Must("mount", dir, testnode.GoodOptions)
	d.Must("mount", dir+"/", testnode.GoodOptions)
	if count := testnode.MountsOn(t, dir); count != 1 {
		t.Errorf("%d mounts", count)
	}
	other := testnode.Edit(testnode.PodUID, "9c5b0b2b0f7e4a0e8f0a5d8c6b7a9e1f")
	if a := d.Call("mount", dir, other); a.Status != "Failure" || !strings.Contains(a.Message, "another pod") {
		t.Errorf("mount for another pod: %+v", a)
	}
	if got := testnode.Read(t, dir, "pod.uid"); got != testnode.PodUID+"\n" {
		t.Errorf("pod.uid is %q", got)
	}
}

func TestMountWhenTheNodeMountWasTakenAway(t *testing.T) {
	d := testnode.Install(t)
	d.Mount()
	if err := unix.Unmount(filepath.Join(d.RunDir, "fs"), unix.MNT_DETACH); err != nil {
		t.Fatal(err)
	}
	dir := d.Mount()
	if got := testnode.Read(t, dir, "pod.uid"); got != testnode.PodUID+"\n" {
		t.Errorf("pod.uid is %q", got)
	}
}

func TestOddNamesOfDirectories(t *testing.T) {
	d := testnode.Install(t)
	for _, name := range []string{"with space", "new\nline", `back\slash`, `\040`, "žluťoučký kůň", "'quotes\"", "-dash", "tab\t", "#hash", strings.Repeat("x", 255)} {
		dir := filepath.Join(t.TempDir(), name)
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		d.Must("mount", dir, testnode.GoodOptions)
		if got := testnode.Read(t, dir, "pod.uid"); got != testnode.PodUID+"\n" {
			t.Errorf("%q: pod.uid is %q", name, got)
		}
		if s := d.Status(); len(s.Volumes) != 1 || s.Volumes[0].Dir != dir || s.Volumes[0].State != "ok" {
			t.Errorf("%q: status: %+v", name, s)
		}
		d.Must("unmount", dir)
		testnode.Gone(t, d, dir)
	}
}

func TestLinksInTheMiddleOfThePathAreFollowed(t *testing.T) {
	d := testnode.Install(t)
	base := t.TempDir()
	if err := errors.Join(os.MkdirAll(base+"/data/volume", 0o755), os.Symlink("data", base+"/kubelet")); err != nil {
		t.Fatal(err)
	}
	dir := base + "/kubelet/volume"
	d.Must("mount", dir, testnode.GoodOptions)
	if got := testnode.Read(t, base, "data/volume/pod.uid"); got != testnode.PodUID+"\n" {
		t.Errorf("pod.uid is %q", got)
	}
	d.Must("mount", dir, testnode.GoodOptions)
	d.Must("unmount", dir)
	testnode.Gone(t, d, base+"/data/volume")
}

func TestAStaticPodsUIDHasNoDashes(t *testing.T) {
	d := testnode.Install(t)
	const uid = "9c5b0b2b0f7e4a0e8f0a5d8c6b7a9e1f"
	dir := filepath.Join(t.TempDir(), "pods", uid, "volumes/example.com~pod-info-fuse/info")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	d.Must("mount", dir, testnode.Edit(testnode.PodUID, uid))
	if got := testnode.Read(t, dir, "pod.uid"); got != uid+"\n" {
		t.Errorf("pod.uid is %q", got)
	}
}

// A mount whose record is lost must not pass for the next pod's.
func TestMountOverAVolumeWithoutARecord(t *testing.T) {
	d := testnode.Install(t)
	dir := d.Mount()
	testnode.Read(t, dir, "pod.uid")
	if err := os.Remove(d.Records()[0]); err != nil {
		t.Fatal(err)
	}
	const next = "9c5b0b2b0f7e4a0e8f0a5d8c6b7a9e1f"
	d.Must("mount", dir, testnode.Edit(testnode.PodUID, next))
	if got := testnode.Read(t, dir, "pod.uid"); got != next+"\n" {
		t.Errorf("pod.uid is %q", got)
	}
	if count := testnode.MountsOn(t, dir); count != 1 {
		t.Errorf("%d mounts", count)
	}
}
