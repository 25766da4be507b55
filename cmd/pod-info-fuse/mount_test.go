package main_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// edit returns the good options with one piece replaced.
func edit(old, replacement string) string { return strings.Replace(goodOptions, old, replacement, 1) }

const uidOption = `"kubernetes.io/pod.uid":"` + podUID + `"`

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
		{"three arguments", func(dir string) []string { return []string{dir, "/dev/sda", goodOptions} }, "has 3"},
		options("options are not JSON", "pod.uid="+podUID, "not JSON"),
		options("options are a list", "["+goodOptions+"]", "not a JSON object"),
		options("a value is a number", edit(`"rw"`, `1`), `"kubernetes.io/readwrite" is not a string`),
		options("no pod.uid", edit(uidOption+",", ""), `"kubernetes.io/pod.uid" is missing`),
		options("empty pod.uid", edit(podUID, ""), `"" is not a pod's UID`),
		options("pod.uid is a path", edit(podUID, "../../etc/passwd"), `is not a pod's UID`),
		options("pod.uid ends in a newline", edit(podUID, podUID+`\n`), `is not a pod's UID`),
		options("pod.uid has 300 characters", edit(podUID, strings.Repeat("a", 300)), `is not a pod's UID`),
		options("only a look-alike of pod.uid", edit("kubernetes.io/pod.uid", "kubernete\u017f.io/pod.uid"), "kubernete\u017f.io/pod.uid"),
		options("a look-alike of pod.uid beside it", edit("{", "{\"kubernete\u017f.io/pod.uid\":\""+podUID+"\","), "kubernete\u017f.io/pod.uid"),
		options("pod.uid twice", edit("{", "{"+uidOption+","), "occurs twice"),
		options("an unknown option", edit("{", `{"colour":"blue",`), `"colour" is not known`),
		{"relative directory", func(dir string) []string { return []string{"volume", goodOptions} }, "not an absolute path"},
		{"directory with a detour", func(dir string) []string { return []string{dir + "/../volume", goodOptions} }, "shortest form"},
		{"the root directory", func(dir string) []string { return []string{"/", goodOptions} }, "cannot be a volume"},
		{"missing directory", func(dir string) []string { return []string{dir + "-2", goodOptions} }, "does not exist"},
		{"a file", func(dir string) []string { return []string{dir + ".file", goodOptions} }, "not a directory"},
		{"a symbolic link", func(dir string) []string { return []string{dir + ".link", goodOptions} }, "symbolic link"},
		{"directory is not UTF-8", func(dir string) []string { return []string{dir + ".\xff", goodOptions} }, "not UTF-8"},
		{"directory of another pod", func(dir string) []string {
			other := filepath.Join(filepath.Dir(dir), "pods/9c5b0b2b-0f7e-4a0e-8f0a-5d8c6b7a9e1f/volumes/example.com~pod-info-fuse/info")
			os.MkdirAll(other, 0o755)
			return []string{other, goodOptions}
		}, "belongs to pod"},
	} {
		t.Run(row.problem, func(t *testing.T) {
			d := install(t)
			dir := filepath.Join(t.TempDir(), "volume")
			for _, err := range []error{
				os.Mkdir(dir, 0o755), os.WriteFile(dir+".file", nil, 0o600), os.Symlink(dir, dir+".link"), os.Mkdir(dir+".\xff", 0o755),
			} {
				if err != nil {
					t.Fatal(err)
				}
			}
			args := append([]string{"mount"}, row.args(dir)...)
			if a := d.call(args...); a.Status != "Failure" || !strings.Contains(a.Message, row.message) {
				t.Errorf("answer %+v, want a Failure with %q", a, row.message)
			}
			leftNothing(t, d, dir)
		})
	}
}

// What is mounted there would cover what the driver needs, and a process that serves would wait for itself.
func TestTheRunDirectoryIsNoVolume(t *testing.T) {
	d := install(t)
	dir := d.mount()
	link := filepath.Join(t.TempDir(), "run") // as /var/run is one
	if err := os.Symlink("/run", link); err != nil {
		t.Fatal(err)
	}
	byLink := link + strings.TrimPrefix(d.runDir, "/run")
	for _, bad := range []string{
		d.runDir, filepath.Join(d.runDir, "fs"), filepath.Join(d.runDir, "volumes"), filepath.Dir(d.runDir), "/run",
		byLink, filepath.Join(byLink, "fs"), filepath.Dir(byLink),
	} {
		before := mountsOn(t, bad)
		for _, args := range [][]string{{"mount", bad, edit(podUID, uidOf(1))}, {"unmount", bad}} {
			if a := d.callThatEnds(args...); a.Status != "Failure" || !strings.Contains(a.Message, "cannot be a volume") {
				t.Errorf("%s: %+v", args[:2], a)
			}
		}
		if after := mountsOn(t, bad); after != before {
			t.Errorf("%s has %d mounts, and had %d", bad, after, before)
		}
	}
	if got := read(t, dir, "pod.uid"); got != podUID+"\n" {
		t.Errorf("another volume reads %q", got)
	}
	active, standby := d.pair()
	d.stopPair()
	if a := d.callThatEnds("unmount", filepath.Join(d.runDir, "fs/volume/below")); a.Status != "Failure" || !strings.Contains(a.Message, "cannot be a volume") {
		t.Errorf("below the daemon's own file system, while that is stopped: %+v", a)
	}
	resume(t, active, standby)
}

// leftNothing checks that a failed call-out left no mount, record or process.
func leftNothing(t *testing.T, d installed, dir string) {
	t.Helper()
	if count := mountsOn(t, dir); count != 0 {
		t.Errorf("%d mounts left on %s", count, dir)
	}
	if left := d.records(); len(left) != 0 {
		t.Errorf("records left: %q", left)
	}
	if s := d.status(); s.Mount.State != "absent" || s.Daemon.Active != nil {
		t.Errorf("left over: %+v", s)
	}
}

func TestMountNeedsRoot(t *testing.T) {
	d := install(t)
	dir := t.TempDir()
	for _, path := range []string{dir, filepath.Dir(dir), filepath.Dir(d.path)} {
		if err := os.Chmod(path, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	command := d.command("mount", dir, goodOptions)
	command.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 1000, Gid: 1000}}
	if a := d.run(command); a.Status != "Failure" || !strings.Contains(a.Message, "root") {
		t.Errorf("as uid 1000: %+v", a)
	}
	leftNothing(t, d, dir)
}

func TestMountNeedsDevFuse(t *testing.T) {
	d := install(t)
	dir := t.TempDir()
	// A mount name space with a /dev that has nothing but null.
	script := `mount -t tmpfs none /dev && mknod -m 666 /dev/null c 1 3 && exec "$1" mount "$2" "$3"`
	command := exec.Command("unshare", "--mount", "sh", "-c", script, "sh", d.path, dir, goodOptions)
	if a := d.run(command); a.Status != "Failure" || !strings.Contains(a.Message, "/dev/fuse") || !strings.Contains(a.Message, "modprobe fuse") {
		t.Errorf("without /dev/fuse: %+v", a)
	}
	leftNothing(t, d, dir)
}

func TestInitNeedsNothing(t *testing.T) {
	d := install(t)
	// As in the container of a control plane: no root, no /run, no /dev, no /proc.
	script := `for dir in /run /dev /proc; do mount -t tmpfs -o ro none $dir; done; exec setpriv --reuid 1000 --regid 1000 --clear-groups "$1" init`
	for parent := filepath.Dir(d.path); strings.HasPrefix(parent, os.TempDir()+"/"); parent = filepath.Dir(parent) {
		if err := os.Chmod(parent, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	a := d.run(exec.Command("unshare", "--mount", "sh", "-c", script, "sh", d.path))
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
	d := install(t)
	dir := t.TempDir()
	if err := unix.Mount("something", dir, "tmpfs", 0, ""); err != nil {
		t.Fatal(err)
	}
	defer unix.Unmount(dir, unix.MNT_DETACH)
	if a := d.call("mount", dir, goodOptions); a.Status != "Failure" || !strings.Contains(a.Message, "something else") {
		t.Errorf("mount: %+v", a)
	}
	if mountsOn(t, dir) != 1 || len(d.records()) != 0 {
		t.Errorf("%d mounts, records %q", mountsOn(t, dir), d.records())
	}
}

func TestMountOfWhatIsMountedAlready(t *testing.T) {
	d := install(t)
	dir := d.mount()
	d.must("mount", dir, goodOptions)
	d.must("mount", dir+"/", goodOptions)
	if count := mountsOn(t, dir); count != 1 {
		t.Errorf("%d mounts", count)
	}
	other := edit(podUID, "9c5b0b2b0f7e4a0e8f0a5d8c6b7a9e1f")
	if a := d.call("mount", dir, other); a.Status != "Failure" || !strings.Contains(a.Message, "another pod") {
		t.Errorf("mount for another pod: %+v", a)
	}
	if got := read(t, dir, "pod.uid"); got != podUID+"\n" {
		t.Errorf("pod.uid is %q", got)
	}
}

func TestMountWhenTheNodeMountWasTakenAway(t *testing.T) {
	d := install(t)
	d.mount()
	if err := unix.Unmount(filepath.Join(d.runDir, "fs"), unix.MNT_DETACH); err != nil {
		t.Fatal(err)
	}
	dir := d.mount()
	if got := read(t, dir, "pod.uid"); got != podUID+"\n" {
		t.Errorf("pod.uid is %q", got)
	}
}

func TestOddNamesOfDirectories(t *testing.T) {
	d := install(t)
	for _, name := range []string{"with space", "new\nline", `back\slash`, `\040`, "žluťoučký kůň", "'quotes\"", "-dash", "tab\t", "#hash", strings.Repeat("x", 255)} {
		dir := filepath.Join(t.TempDir(), name)
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		d.must("mount", dir, goodOptions)
		if got := read(t, dir, "pod.uid"); got != podUID+"\n" {
			t.Errorf("%q: pod.uid is %q", name, got)
		}
		if s := d.status(); len(s.Volumes) != 1 || s.Volumes[0].Dir != dir || s.Volumes[0].State != "ok" {
			t.Errorf("%q: status: %+v", name, s)
		}
		d.must("unmount", dir)
		gone(t, d, dir)
	}
}

func TestLinksInTheMiddleOfThePathAreFollowed(t *testing.T) {
	d := install(t)
	base := t.TempDir()
	if err := errors.Join(os.MkdirAll(base+"/data/volume", 0o755), os.Symlink("data", base+"/kubelet")); err != nil {
		t.Fatal(err)
	}
	dir := base + "/kubelet/volume"
	d.must("mount", dir, goodOptions)
	if got := read(t, base, "data/volume/pod.uid"); got != podUID+"\n" {
		t.Errorf("pod.uid is %q", got)
	}
	d.must("mount", dir, goodOptions)
	d.must("unmount", dir)
	gone(t, d, base+"/data/volume")
}

func TestAStaticPodsUIDHasNoDashes(t *testing.T) {
	d := install(t)
	const uid = "9c5b0b2b0f7e4a0e8f0a5d8c6b7a9e1f"
	dir := filepath.Join(t.TempDir(), "pods", uid, "volumes/example.com~pod-info-fuse/info")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	d.must("mount", dir, edit(podUID, uid))
	if got := read(t, dir, "pod.uid"); got != uid+"\n" {
		t.Errorf("pod.uid is %q", got)
	}
}

// A mount whose record is lost must not pass for the next pod's.
func TestMountOverAVolumeWithoutARecord(t *testing.T) {
	d := install(t)
	dir := d.mount()
	read(t, dir, "pod.uid")
	if err := os.Remove(d.records()[0]); err != nil {
		t.Fatal(err)
	}
	const next = "9c5b0b2b0f7e4a0e8f0a5d8c6b7a9e1f"
	d.must("mount", dir, edit(podUID, next))
	if got := read(t, dir, "pod.uid"); got != next+"\n" {
		t.Errorf("pod.uid is %q", got)
	}
	if count := mountsOn(t, dir); count != 1 {
		t.Errorf("%d mounts", count)
	}
}
