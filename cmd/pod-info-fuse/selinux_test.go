package main_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"example.com/pod-info-fuse/internal/testnode"
)

// Nodes without SELinux, to which a machine with it is made like by unmounting
// selinuxfs. What there is where it enforces is seen in e2e/selinux.
func withoutSELinux(d testnode.Driver, args ...string) *exec.Cmd {
	script := `umount -a -t selinuxfs; exec "$0" "$@"`
	return exec.Command("unshare", append([]string{"--mount", "sh", "-c", script, d.Path}, args...)...)
}

func TestWhereSELinuxIsAbsent(t *testing.T) {
	d := testnode.Install(t)
	for _, row := range []struct {
		args   []string
		exit   int
		output string
	}{
		{[]string{"status"}, 0, "SELinux        absent\n"},
		{[]string{"status", "-o", "json"}, 0, `"mode": "absent",
    "context": ""
`},
	} {
		command := withoutSELinux(d, row.args...)
		output, _ := command.CombinedOutput()
		if command.ProcessState.ExitCode() != row.exit || !strings.Contains(string(output), row.output) {
			t.Errorf("%q: %s: %s; want status %d and %s", row.args, command.ProcessState, output, row.exit, row.output)
		}
		if strings.Contains(string(output), "label ") {
			t.Errorf("%q is not brief: %s", row.args, output)
		}
	}
}

// What status says of the node's own SELinux is what the kernel says.
func TestStatusShowsTheModeOfSELinux(t *testing.T) {
	want := "absent"
	if enforce, err := os.ReadFile("/sys/fs/selinux/enforce"); err == nil {
		want = map[string]string{"0": "permissive", "1": "enforcing"}[string(enforce)]
	}
	if got := testnode.Install(t).Status().SELinux; got.Mode != want || got.Error != "" {
		t.Errorf("%+v, want %s", got, want)
	}
}

// mount(2) refuses a label where SELinux is absent. It must not be tried there.
func TestMountAsksForNoLabelWhereSELinuxIsAbsent(t *testing.T) {
	d := testnode.Install(t)
	log := filepath.Join(t.TempDir(), "log")
	config := filepath.Join(filepath.Dir(d.Path), "config.json")
	if err := os.WriteFile(config, []byte(`{"log": "`+log+`"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	d.Mount()
	s := d.Status().SELinux
	if s.Mode == "absent" && (s.Context != "" || strings.Contains(testnode.Read(t, log), "label")) {
		t.Errorf("%+v, log: %s", s, testnode.Read(t, log))
	}
}

// A label that is not understood must not become one that is open to more than
// was meant, nor break the options of the mount.
func TestALabelThatCannotBeOneFailsMount(t *testing.T) {
	d := testnode.Install(t)
	config := filepath.Join(filepath.Dir(d.Path), "config.json")
	if err := os.WriteFile(config, []byte(`{"selinuxContext": "system_u:object_r:t:s0\",suid,x=\""}`), 0o600); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if a := d.Call("mount", dir, testnode.GoodOptions); a.Status != "Failure" || !strings.Contains(a.Message, "selinuxContext") || !strings.Contains(a.Message, config) {
		t.Errorf("mount: %+v", a)
	}
	if problem := d.Status().ConfigError; !strings.Contains(problem, "selinuxContext") {
		t.Errorf("status: configuration: %q", problem)
	}
}
