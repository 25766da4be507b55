//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"path"
	"strings"
	"testing"
)

// checkFiles checks all that a container finds in a volume at dir.
func (p *testPod) checkFiles(t *testing.T, container, dir string) {
	t.Helper()
	host, err := os.ReadFile("/proc/sys/kernel/hostname") // what uname(2) says, with a newline
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"pod.uid": p.uid + "\n", "pod.nodename": string(host)}
	for file, want := range want {
		if got := p.mustExec(t, container, "cat", path.Join(dir, file)); got != want {
			t.Errorf("%s in the container %s of %s: got %q, want %q", file, container, p.Metadata.Name, got, want)
		}
	}
	p.checkShell(t, container, path.Join(dir, "pod"))
}

// checkShell checks what a shell reads that reads the file itself.
func (p *testPod) checkShell(t *testing.T, container, file string) {
	t.Helper()
	shell := p.hold(t, container, "sh", "-c", `read -r pid <"$0" && echo "$pid $$" && read -r wait`, file)
	read, own, _ := strings.Cut(shell.line(), " ")
	p.checkReader(t, container, read, own)
}

func TestFiles(t *testing.T) {
	t.Parallel()
	p := runPod(t, newManifest("files"))
	p.checkFiles(t, "main", infoDir)

	// The text that described the file first called it pod, the program pid.
	p.checkShell(t, "main", infoDir+"/pid")
	if target := p.mustExec(t, "main", "readlink", infoDir+"/pid"); target != "pod\n" {
		t.Errorf("pid is a link to %q, want pod", target)
	}
	if names := p.mustExec(t, "main", "ls", "-A", infoDir); names != "pid\npod\npod.nodename\npod.uid\n" {
		t.Errorf("the volume has %q", names)
	}
}

func TestInitContainer(t *testing.T) {
	t.Parallel()
	m := newManifest("init")
	first := newContainer("first")
	first.Command = []string{"sh", "-c", "until [ -e /finished ]; do sleep 0.1; done"}
	m.Spec.InitContainers = []*container{first}
	p := createPod(t, m)

	p.waitFor(t, "first")
	p.checkFiles(t, "first", infoDir)
	// It ends the container, which may kill what made it; that main starts tells that it was made.
	if out, err := p.exec(t, "first", "touch", "/finished"); err != nil {
		t.Logf("touch /finished: %v: %s", err, out)
	}
	p.waitFor(t, "main")
	p.checkFiles(t, "main", infoDir)
}

func TestSubPath(t *testing.T) {
	t.Parallel()
	m := newManifest("sub-path")
	m.main().VolumeMounts = []volumeMount{
		{Name: "pod-info", MountPath: "/mnt/uid", SubPath: "pod.uid"},
		{Name: "pod-info", MountPath: "/mnt/pid", SubPath: "pod"},
	}
	p := runPod(t, m)
	if uid := p.mustExec(t, "main", "cat", "/mnt/uid"); uid != p.uid+"\n" {
		t.Errorf("got %q, want the UID %s", uid, p.uid)
	}
	p.checkShell(t, "main", "/mnt/pid")
}

// For fsGroup, the kubelet changes the group of a volume's files, unless the
// driver's answer to init said that it must not. A volume that is read-only
// withstands it, but then the kubelet's log fills with errors.
func TestFSGroup(t *testing.T) {
	t.Parallel()
	m := newManifest("fs-group")
	m.Spec.SecurityContext = &podSecurity{FSGroup: 4242}
	m.main().SecurityContext = &containerSecurity{RunAsUser: 1000}
	p := runPod(t, m)
	p.checkFiles(t, "main", infoDir)
	for _, name := range []string{".", "pod", "pod.uid", "pod.nodename"} {
		if owner := p.mustExec(t, "main", "stat", "-c", "%u:%g", path.Join(infoDir, name)); owner != "0:0\n" {
			t.Errorf("%s belongs to %q, want 0:0", name, owner)
		}
	}
	attempts, err := p.node.LogLines("kubelet", "Lchown failed", p.volumeDirs(driverName))
	if err != nil {
		t.Fatal(err)
	}
	if len(attempts) > 0 {
		t.Errorf("the kubelet tried to change the files' group: %s", attempts[0])
	}
}

func TestReadOnly(t *testing.T) {
	t.Parallel()
	asked := newManifest("asked-read-only")
	asked.Spec.Volumes[0].FlexVolume.ReadOnly = true
	for flag, m := range map[string]*manifest{"rw": newManifest("read-only"), "ro": asked} {
		p := runPod(t, m)
		for _, file := range []string{"new", "pod.uid"} {
			script := `echo mine >"$0"`
			if out, err := p.exec(t, "main", "sh", "-c", script, path.Join(infoDir, file)); err == nil || !strings.Contains(out, "Read-only file system") {
				t.Errorf("write to %s: %v: %q, want a refusal because the file system is read-only", file, err, out)
			}
		}
		p.mustExec(t, "main", "grep", fmt.Sprintf(" %s [^ ]* %s,", infoDir, flag), "/proc/mounts")
	}
}
