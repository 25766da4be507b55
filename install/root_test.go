package install_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/internal/testnode"
)

// A container without privileges, but for the one to change its root directory, is
// enough to install the driver.
func TestInstallBelowARootNeedsToChangeItAndNothingElse(t *testing.T) {
	root := hostRoot(t)
	config := filepath.Join(t.TempDir(), "config.json") // is outside of the root
	testnode.Write(t, config, `{"log":"off"}`)
	for _, row := range []struct{ args, said string }{
		{"install", "version 1.2.3 installed as /etc/kubernetes/volumeplugins/example.com~pod-info-fuse/pod-info-fuse (no kubelet is running, and this directory is there)"},
		{"install --config " + config, "version 1.2.3 installed as /etc/"},
		{"install --config " + config, "version 1.2.3 is installed already as /etc/"},
		{"install --plugin-dir /new/exec --driver acme.org/facts", "version 1.2.3 installed as /new/exec/acme.org~facts/facts (as --plugin-dir says)"},
	} {
		if output, err := below(root, "+sys_chroot", row.args).CombinedOutput(); err != nil || !strings.HasPrefix(string(output), row.said) {
			t.Errorf("%s: %v: %s; want %s", row.args, err, output, row.said)
		}
	}
	dir := filepath.Join(root, "etc/kubernetes/volumeplugins/example.com~pod-info-fuse")
	if testnode.Read(t, dir, "pod-info-fuse") != testnode.Read(t, testnode.Binary) || testnode.Read(t, dir, "config.json") != testnode.Read(t, config) {
		t.Error("what is installed is something else")
	}
	testnode.Read(t, root, "new/exec/acme.org~facts/facts")
}

func TestBelowARootTheErrorNamesWhatIsMissing(t *testing.T) {
	root := hostRoot(t)
	for _, command := range []string{"install", "uninstall"} {
		output, err := below(root, "+chown", command).CombinedOutput()
		if err == nil || !strings.Contains(string(output), "change the root directory to "+root+": operation not permitted; it needs CAP_SYS_CHROOT") {
			t.Errorf("%s: %v: %s", command, err, output)
		}
		output, err = below(root+"/none", "+sys_chroot", command).CombinedOutput()
		if err == nil || !strings.Contains(string(output), root+"/none: no such file or directory") {
			t.Errorf("%s: %v: %s", command, err, output)
		}
	}
	// What has been mounted may be in the host's namespaces, which it may not enter.
	output, err := below(root, "+sys_chroot", "uninstall").CombinedOutput()
	if err == nil || !strings.Contains(string(output), "enter the host's namespaces: ") || !strings.Contains(string(output), "the container must be privileged, with hostPID") {
		t.Errorf("uninstall: %v: %s", err, output)
	}
}

// hostRoot is a root directory with as little in it as a driver needs.
func hostRoot(t *testing.T) string {
	t.Helper()
	testnode.Require(t)
	root := t.TempDir()
	null := filepath.Join(root, "dev/null")
	if err := errors.Join(
		os.Mkdir(filepath.Dir(null), 0o755), os.WriteFile(null, nil, 0o666), unix.Mount("/dev/null", null, "", unix.MS_BIND, ""),
		os.MkdirAll(filepath.Join(root, "etc/kubernetes/volumeplugins"), 0o755),
	); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(null, 0); err != nil {
			t.Error(err)
		}
	})
	return root
}

// below is a command of the installer with --root and no capability but one.
func below(root, capability, args string) *exec.Cmd {
	words := append([]string{"--bounding-set", "-all," + capability, "--inh-caps", "-all", "--", testnode.Binary}, strings.Fields(args)...)
	return exec.Command("setpriv", append(words, "--root", root)...)
}
