package main_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"example.com/pod-info-fuse/internal/testnode"
)

func TestStatus(t *testing.T) {
	d := testnode.Install(t)
	s := d.Status()
	if s.Mount.State != "absent" || s.Daemon.Active != nil || len(s.Volumes) != 0 || s.Version != "1.2.3" || s.RunDir != d.RunDir {
		t.Errorf("before the first mount: %+v", s)
	}
	if _, err := os.Stat(d.RunDir); !os.IsNotExist(err) {
		t.Errorf("status made %s", d.RunDir)
	}
	dir := d.Mount()
	s = d.Status()
	if s.Mount.State != "ok" || !testnode.Alive(d.Daemon()) || len(s.Volumes) != 1 {
		t.Fatalf("with a volume: %+v", s)
	}
	v := s.Volumes[0]
	if v.Dir != dir || v.PodUID != testnode.PodUID || v.PodName != "web-0" || v.PodNamespace != "shop" || v.State != "ok" || len(v.ID) != 14 {
		t.Errorf("volume: %+v", v)
	}
	if want := strings.Replace(filepath.Base(d.RunDir), "~", "/", 1); s.Driver != want {
		t.Errorf("driver %s, want %s", s.Driver, want)
	}
	table, err := d.Command("status").Output()
	for _, text := range []string{dir, testnode.PodUID, "shop/web-0", "1.2.3", s.Driver} {
		if err != nil || !strings.Contains(string(table), text) {
			t.Errorf("the table lacks %s: %v\n%s", text, err, table)
		}
	}
}

func TestStatusNamesARecordThatCannotBeRead(t *testing.T) {
	d := testnode.Install(t)
	d.Mount()
	if err := os.WriteFile(filepath.Join(d.RunDir, "volumes/123456789abcde.json"), []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	output, err := d.Command("status").Output()
	if err != nil || !strings.Contains(string(output), "123456789abcde.json: it is not JSON") {
		t.Errorf("%v\n%s", err, output)
	}
}

func TestStopRefusesWhileVolumesAreMounted(t *testing.T) {
	d := testnode.Install(t)
	dir := d.Mount()
	output, err := d.Command("stop").CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 1 || !strings.Contains(string(output), dir) || !strings.Contains(string(output), "shop/web-0") {
		t.Errorf("stop: %v: %s", err, output)
	}
	if got := testnode.Read(t, dir, "pod.uid"); got != testnode.PodUID+"\n" {
		t.Errorf("pod.uid is %q", got)
	}
	d.Must("unmount", dir)
	pid := d.Daemon()
	if output, err := d.Command("stop").CombinedOutput(); err != nil || len(output) != 0 {
		t.Errorf("stop: %v: %s", err, output)
	}
	if _, err := os.Stat(d.RunDir); testnode.Alive(pid) || !os.IsNotExist(err) {
		t.Errorf("stop left process %d: %v, run directory: %v", pid, testnode.Alive(pid), err)
	}
	if output, err := d.Command("stop").CombinedOutput(); err != nil {
		t.Errorf("stop of what is stopped: %v: %s", err, output)
	}
}

// What an installer says of a busy node is still read.
func TestStopNamesTwentyVolumes(t *testing.T) {
	d := testnode.Install(t)
	for range 23 {
		d.Mount()
	}
	output, err := d.Command("stop").CombinedOutput()
	if named := strings.Count(string(output), "shop/web-0"); err == nil || named != 20 || !strings.HasSuffix(string(output), "\n  and 3 more, which status lists\n") {
		t.Errorf("%v: %d volumes are named: %s", err, named, output)
	}
}

func TestStopForceUnmountsVolumes(t *testing.T) {
	d := testnode.Install(t)
	dir := d.Mount()
	busy, err := os.Open(filepath.Join(dir, "pod.uid"))
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	pid := d.Daemon()
	if output, err := d.Command("stop", "--force").CombinedOutput(); err != nil {
		t.Fatalf("stop --force: %v: %s", err, output)
	}
	if _, err := os.Stat(d.RunDir); testnode.MountsOn(t, dir) != 0 || testnode.Alive(pid) || !os.IsNotExist(err) {
		t.Errorf("left: %d mounts, daemon %v, run directory %v", testnode.MountsOn(t, dir), testnode.Alive(pid), err)
	}
}

func TestCommandLine(t *testing.T) {
	for _, row := range []struct {
		args           []string
		exit           int
		stdout, stderr string
	}{
		{nil, 2, "", "for the kubelet: mount a volume on DIR\n"},
		{[]string{"help"}, 0, "for the kubelet: mount a volume on DIR\n", ""},
		{[]string{"--help"}, 0, "for the kubelet: mount a volume on DIR\n", ""},
		{[]string{"version"}, 0, "pod-info-fuse 1.2.3\n", ""},
		{[]string{"version", "-o", "json"}, 0, "\"version\": \"1.2.3\"\n", ""},
		{[]string{"restore", "-o", "json"}, 0, "[]\n", ""},
		{[]string{"mount", "--help"}, 0, `{"status":"Failure"`, ""}, // the kubelet's
		{[]string{"format"}, 0, `{"status":"Not supported","message":"call-out \"format\" is not implemented by this driver"}`, ""},
		{[]string{"attach", "{}", "node"}, 0, `{"status":"Not supported","message":"call-out \"attach\" is not implemented by this driver"}`, ""},
		{[]string{""}, 0, `{"status":"Not supported"`, ""},
		{[]string{"status", "-o", "yaml"}, 2, "", `"yaml"`},
		{[]string{"status", "--verbose"}, 2, "", "--verbose"},
		{[]string{"status", "all"}, 2, "", `"all"`},
		{[]string{"stop", "--force=maybe"}, 2, "", "maybe"},
		{[]string{"serve"}, 1, "", "not a command"},
		{[]string{"heal", "/", "1", "1"}, 1, "", "not a command"},
	} {
		d := testnode.Install(t)
		command := d.Command(row.args...)
		var stdout, stderr strings.Builder
		command.Stdout, command.Stderr = &stdout, &stderr
		if err := command.Run(); command.ProcessState == nil || command.ProcessState.ExitCode() != row.exit {
			t.Errorf("%q: %v, want exit status %d", row.args, err, row.exit)
		}
		if !strings.Contains(stdout.String(), row.stdout) || row.stdout == "" && stdout.Len() > 0 {
			t.Errorf("%q: stdout %q, want %q", row.args, stdout.String(), row.stdout)
		}
		if !strings.Contains(stderr.String(), row.stderr) || row.stderr == "" && stderr.Len() > 0 {
			t.Errorf("%q: stderr %q, want %q", row.args, stderr.String(), row.stderr)
		}
	}
}

func TestDriverNameWhereTheDirectoryTellsNone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pod-info-fuse")
	if err := os.Link(testnode.Binary, path); err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		args []string
		want string
	}{
		{[]string{"status", "-o", "json"}, `"driver": "example.com/pod-info-fuse"`},
		{[]string{"status", "-o", "json", "--driver", "acme.org/facts"}, `"runDir": "/run/pod-info-fuse/acme.org~facts"`},
		{[]string{"status", "--driver", "../facts"}, `not of the form vendor/driver`},
	} {
		output, _ := exec.Command(path, row.args...).CombinedOutput()
		if !strings.Contains(string(output), row.want) {
			t.Errorf("%q: %s, want %s", row.args, output, row.want)
		}
	}
}
