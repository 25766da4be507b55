//go:build e2e

package e2e

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"example.com/pod-info-fuse/e2e/internal/harness"
)

// uidFile is where the container sub-path of a loss's pod has its one file.
const uidFile = "/mnt/uid"

// A loss is the death of both of the daemon's processes at once, and a pod that
// has a volume then, in each way in which healing must find it: as a directory,
// as one file of it, of which the kubelet keeps a mount as well, and below a root
// where nothing can be made.
type loss struct {
	d          *driver
	pod        *testPod
	containers map[string]string // the pod's, by name
}

// lose runs the pod, kills the daemon, and checks that the pod's files are dead.
func lose(t *testing.T, name string) loss {
	t.Helper()
	m := newManifest(name)
	subPath, readOnly := newContainer("sub-path"), newContainer("read-only")
	subPath.VolumeMounts = []volumeMount{{Name: "pod-info", MountPath: uidFile, SubPath: "pod.uid"}}
	readOnly.SecurityContext = &containerSecurity{ReadOnlyRootFilesystem: true}
	m.Spec.Containers = append(m.Spec.Containers, subPath, readOnly)
	p := runPod(t, m)
	if out, err := p.exec(t, "read-only", "touch", "/mnt/new"); err == nil {
		t.Fatalf("the root of the container read-only is not: touch succeeds: %s", out)
	}
	l := loss{testNode.driver(driverName), p, p.containers(t)}
	l.check(t)
	l.d.killPair(t)
	// The connection ends with the last thread of the two.
	err := harness.Eventually(execLimit, func() error {
		for container, dir := range l.files() {
			if out, err := p.exec(t, container, "cat", dir); err == nil || !strings.Contains(out, "not connected") {
				return fmt.Errorf("both processes are killed, and in the container %s cat %s gives %v: %q", container, dir, err, out)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// files has a file of the volume for each container.
func (l loss) files() map[string]string {
	return map[string]string{"main": infoDir + "/pod.uid", "sub-path": uidFile, "read-only": infoDir + "/pod.uid"}
}

// healed waits until every container can read, as far as one file tells.
func (l loss) healed(t *testing.T, limit time.Duration) {
	t.Helper()
	err := harness.Eventually(limit, func() error {
		for container, file := range l.files() {
			if out, err := l.pod.exec(t, container, "cat", file); err != nil {
				return fmt.Errorf("cat %s in the container %s: %w: %s", file, container, err, out)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatalf("the volume is not healed: %v", err)
	}
}

// check checks all that there is of the volume in the pod's containers and in
// the kubelet's directory.
func (l loss) check(t *testing.T) {
	t.Helper()
	l.checkContainers(t)
	for _, file := range []string{l.volumeFile(), l.subPath()} {
		if err := l.reads(file); err != nil {
			t.Error(err)
		}
	}
}

// reads tells of a file of the kubelet's directory whether it has what pod.uid must have.
func (l loss) reads(file string) error {
	uid, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("the kubelet's: %w", err)
	}
	if string(uid) != l.pod.uid+"\n" {
		return fmt.Errorf("the kubelet's %s: got %q, want %q", file, uid, l.pod.uid)
	}
	return nil
}

func (l loss) checkContainers(t *testing.T) {
	t.Helper()
	l.pod.checkFiles(t, "main", infoDir)
	l.pod.checkFiles(t, "read-only", infoDir)
	want := l.pod.uid + "\n"
	if uid := l.pod.mustExec(t, "sub-path", "cat", uidFile); uid != want {
		t.Errorf("%s in the container sub-path: got %q, want %q", uidFile, uid, want)
	}
	l.pod.checkContainers(t, l.containers)
}

func (l loss) volumeDir() string { return filepath.Join(l.pod.volumeDirs(driverName), "pod-info") }

func (l loss) volumeFile() string { return filepath.Join(l.volumeDir(), "pod.uid") }

// subPath is the kubelet's mount for the container sub-path, which is the first
// mount of a container's (kubernetes v1.34, pkg/volume/util/subpath).
func (l loss) subPath() string {
	return filepath.Join(l.pod.node.podDir(l.pod.uid), "volume-subpaths", "pod-info", "sub-path", "0")
}

// end deletes the pod and checks that nothing of the file system that died is
// left.
func (l loss) end(t *testing.T) {
	t.Helper()
	if err := l.pod.delete(); err != nil {
		t.Error(err)
	}
	mounts, err := harness.MountsBelow(l.d.RunDir())
	if want := []string{filepath.Join(l.d.RunDir(), "fs")}; err != nil || !slices.Equal(mounts, want) {
		t.Errorf("the driver has the mounts %v (%v), want %v", mounts, err, want)
	}
}

// The kubelet never calls mount again for a volume that it has mounted, but init
// heals. It calls init of a driver when it starts, and in the first look-up of
// any volume's plugin after something has changed in the driver's directory
// whose name has no dot at its beginning (kubernetes v1.34,
// pkg/volume/flexvolume/probe.go, and FindPluginBySpec in pkg/volume/plugins.go).
// So an administrator can touch the driver. The next pod with a volume, of
// whatever kind, makes the kubelet look a plugin up.
func TestLossHealedByInit(t *testing.T) {
	l := lose(t, "loss-init")
	now := time.Now()
	if err := os.Chtimes(l.d.Executable(), now, now); err != nil {
		t.Fatal(err)
	}
	// Not a volume of the driver: mount would heal, too.
	other := newManifest("loss-other")
	other.Spec.Volumes = []*volume{{Name: "pod-info", EmptyDir: &struct{}{}}}
	runPod(t, other)
	l.healed(t, startLimit)
	l.check(t)
	l.end(t)
}

func TestLossHealedByRestart(t *testing.T) {
	l := lose(t, "loss-restart")
	if err := testNode.killKubelet(); err != nil {
		t.Fatal(err)
	}
	if err := testNode.startKubelet(); err != nil {
		t.Fatal(err)
	}
	l.pod.waitFor(t, "main")
	l.healed(t, startLimit)
	l.checkContainers(t)
	// A kubelet that starts may unmount both, and mounts only the volume anew: docs/limits.md.
	if err := harness.Eventually(startLimit, func() error { return l.reads(l.volumeFile()) }); err != nil {
		t.Error(err)
	}
	if err := l.reads(l.subPath()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	l.end(t)
}

func TestLossHealedByRestore(t *testing.T) {
	l := lose(t, "loss-restore")
	out, err := l.d.Run("restore")
	if err != nil {
		t.Errorf("%v; it printed:\n%s", err, out)
	}
	l.check(t)
	pod := "pod default/" + l.pod.Metadata.Name + "-" + nodeName
	for _, dir := range []string{l.volumeDir(), l.subPath()} {
		if want := fmt.Sprintf("healed: %s, %s\n", dir, pod); !strings.Contains(string(out), want) {
			t.Errorf("restore does not say %q but\n%s", want, out)
		}
	}
	for container, dir := range map[string]string{"main": infoDir, "sub-path": uidFile, "read-only": infoDir} {
		if !l.restoreNames(t, string(out), container, dir, pod) {
			t.Errorf("restore does not tell that %s in the container %s is healed:\n%s", dir, container, out)
		}
	}
	l.end(t)
}

var healedInContainer = regexp.MustCompile(`(?m)^healed: (\S+) in the container of process (\d+) \((\S+)\), (.+)$`)

// restoreNames tells whether what restore printed names a container. Any of its
// processes will do.
func (l loss) restoreNames(t *testing.T, out, container, dir, pod string) bool {
	t.Helper()
	for _, found := range healedInContainer.FindAllStringSubmatch(out, -1) {
		path, process, of := found[1], found[2], found[4]
		if path == dir && of == pod && pidNamespace(t, process) == pidNamespace(t, l.pod.init(t, container)) {
			return true
		}
	}
	return false
}

// While all is dead, the kubelet can take the pod away.
func TestLossDeletion(t *testing.T) {
	l := lose(t, "loss-deletion")
	if err := l.pod.delete(); err != nil {
		t.Error(err)
	}
	runPod(t, newManifest("loss-next"))
	l.end(t)
}
