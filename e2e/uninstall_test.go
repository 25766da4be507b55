//go:build e2e

package e2e

import (
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"example.com/pod-info-fuse/e2e/internal/harness"
)

// uninstalledName is the driver that comes and goes by the installer.
const uninstalledName = "uninstalled.example.com/pod-info-fuse"

// The kubelet forgets a driver that is uninstalled: it does not call it any more,
// and pods that want its volumes are told that there is no such driver. Each round is
// a node that gets the driver again.
func TestUninstall(t *testing.T) {
	n := testNode
	d := n.driver(uninstalledName)
	t.Cleanup(func() { install(t, d, "uninstall", "--force") })
	for range 2 {
		install(t, d, "install")
		p := runPod(t, wanting("installed"))
		p.checkFiles(t, "main", infoDir)
		if err := p.delete(); err != nil {
			t.Fatal(err)
		}

		before := complaints(t, d)
		install(t, d, "uninstall")
		for _, dir := range []string{d.Dir, d.RunDir()} {
			if exists(dir) {
				t.Errorf("the driver is uninstalled, and %s is there", dir)
			}
		}
		// Every pod makes the kubelet look for the plugins of its volumes.
		for range 2 {
			ordinary := newManifest("ordinary")
			ordinary.Spec.Volumes = []*volume{{Name: "pod-info", EmptyDir: &struct{}{}}}
			runPod(t, ordinary)
		}
		if lines := complaints(t, d)[len(before):]; len(lines) > 0 {
			t.Fatalf("the driver is uninstalled, and the kubelet says:\n%s", strings.Join(lines, ""))
		}

		p = createPod(t, wanting("uninstalled"))
		err := harness.Eventually(startLimit, func() error {
			events, err := n.LogLines("kubelet", `reason="FailedMount"`, p.Metadata.Name, "no volume plugin matched")
			if err == nil && len(events) == 0 {
				err = errors.New("a pod that wants the volume has no event that says: no volume plugin matched")
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if lines := complaints(t, d)[len(before):]; len(lines) > 0 {
			t.Errorf("a pod wants the volume, and the kubelet says:\n%s", strings.Join(lines, ""))
		}
		if err := p.delete(); err != nil {
			t.Error(err)
		}
	}
}

// wanting is a pod that wants a volume of the driver.
func wanting(name string) *manifest {
	m := newManifest(name)
	m.Spec.Volumes[0].FlexVolume.Driver = uninstalledName
	return m
}

// install runs a command of the installer for a driver.
func install(t *testing.T, d *driver, command string, flags ...string) {
	t.Helper()
	args := append([]string{command, "--plugin-dir", testNode.pluginDir(), "--driver", d.Name}, flags...)
	if out, err := exec.Command(binary, args...).CombinedOutput(); err != nil {
		t.Errorf("%s: %v: %s", strings.Join(args, " "), err, out)
	}
}

// complaints are the lines of the kubelet's log, errors and warnings, that are about a
// driver's directory.
func complaints(t *testing.T, d *driver) (lines []string) {
	t.Helper()
	all, err := testNode.LogLines("kubelet", harness.Escaped(d.Name))
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range all {
		if line[0] == 'E' || line[0] == 'W' { // as klog begins them
			lines = append(lines, line)
		}
	}
	return lines
}

// What a killed installer left is there when the kubelet starts, which then watches
// it, too. The next installer removes it, and the kubelet does not mind.
func TestInstallAfterOneThatWasKilled(t *testing.T) {
	n := testNode
	d := n.driver(uninstalledName)
	t.Cleanup(func() { install(t, d, "uninstall", "--force") })
	leftovers := func() []string {
		found, _ := filepath.Glob(filepath.Join(n.pluginDir(), ".pod-info-fuse-*", ".*"))
		return found
	}
	err := harness.Eventually(startLimit, func() error {
		installer := exec.Command(binary, "install", "--plugin-dir", n.pluginDir(), "--driver", d.Name)
		if err := installer.Start(); err != nil {
			return err
		}
		for len(leftovers()) == 0 && !exists(d.Dir) {
		}
		installer.Process.Kill()
		installer.Wait()
		if len(leftovers()) == 0 {
			install(t, d, "uninstall")
			return errors.New("the installer was killed too early or too late to leave anything")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(n.killKubelet(), n.startKubelet()); err != nil {
		t.Fatal(err)
	}
	install(t, d, "install")
	runPod(t, wanting("installed")).checkFiles(t, "main", infoDir)
	lines, err := n.LogLines("kubelet", ".pod-info-fuse-")
	if err != nil || len(lines) > 0 {
		t.Errorf("the kubelet says (%v):\n%s", err, strings.Join(lines, ""))
	}
}
