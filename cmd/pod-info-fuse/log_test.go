package main_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"example.com/pod-info-fuse/internal/testnode"
)

func TestTheLogHasALinePerCallOutAndNoSecret(t *testing.T) {
	d := testnode.Install(t)
	path := filepath.Join(t.TempDir(), "driver.log")
	testnode.Configure(t, d, fmt.Sprintf(`{"log": %q}`, path))
	dir := t.TempDir()
	const secret = "aHVudGVyMg=="
	withSecret := testnode.Edit("{", `{"kubernetes.io/secret/password":"`+secret+`",`)
	d.Must("init")
	d.Must("mount", dir, withSecret)
	d.Must("unmount", dir)
	for _, args := range [][]string{
		{"mount", dir, strings.Replace(withSecret, "{", `{"colour":"`+secret+`",`, 1)},
		{"mount", dir, withSecret, secret},
		{"mount", dir, withSecret + secret},
		{"attach", withSecret, "node"},
		{"getvolumename", secret},
	} {
		if a := d.Call(args...); strings.Contains(a.Message, secret) {
			t.Errorf("%q: the answer has the secret in it: %s", args, a.Message)
		}
	}
	var lines []string
	for line := range strings.Lines(testnode.Read(t, path)) {
		if !strings.Contains(line, "]: daemon: ") {
			lines = append(lines, line)
		}
	}
	for i, want := range []string{
		`init: Success in [\d.]+(m|µ)?s`,
		`mount ` + dir + `: Success in [\d.]+m?s`,
		`unmount ` + dir + `: Success in [\d.]+(m|µ)?s`,
		`mount ` + dir + `: Failure: option "colour" is not known.* in `,
		`mount ` + dir + `: Failure: .*has 3 in `,
		`mount ` + dir + `: Failure: .*options are not a JSON object of strings: .* in `,
		`attach: Not supported: .* in `,
		`getvolumename: Not supported: .* in `,
	} {
		if i >= len(lines) || !regexp.MustCompile(`^\S+ pod-info-fuse\[\d+\]: `+want).MatchString(lines[i]) {
			t.Fatalf("line %d of the log does not match %s:\n%s", i, want, strings.Join(lines, ""))
		}
	}
	if strings.Contains(strings.Join(lines, ""), secret) || len(lines) != 8 {
		t.Errorf("the log has a secret in it, or other than 8 lines:\n%s", strings.Join(lines, ""))
	}
}

func TestABadConfigurationFailsMountAndNothingElse(t *testing.T) {
	d := testnode.Install(t)
	dir := d.Mount()
	testnode.Configure(t, d, `{"lug": "off"}`)
	other := t.TempDir()
	if a := d.Call("mount", other, testnode.GoodOptions); a.Status != "Failure" || !strings.Contains(a.Message, `"lug"`) || !strings.Contains(a.Message, "config.json") {
		t.Errorf("mount: %+v", a)
	}
	if testnode.MountsOn(t, other) != 0 || len(d.Records()) != 1 {
		t.Errorf("%d mounts, records %q", testnode.MountsOn(t, other), d.Records())
	}
	if s := d.Status(); !strings.Contains(s.ConfigError, `"lug"`) {
		t.Errorf("status: %+v", s)
	}
	d.Must("init")
	d.Must("unmount", dir)
}

func TestAConfigurationThatIsNoFile(t *testing.T) {
	for _, row := range []struct {
		what    string
		make    func(path string) error
		problem string // none: it is accepted
	}{
		{"a directory", func(path string) error { return os.Mkdir(path, 0o755) }, "not a regular file"},
		{"a fifo", func(path string) error { return syscall.Mkfifo(path, 0o644) }, "not a regular file"},
		{"a socket", func(path string) error {
			listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: path})
			if err == nil {
				listener.SetUnlinkOnClose(false)
				err = listener.Close()
			}
			return err
		}, "not a regular file"},
		{"a loop of links", func(path string) error { return os.Symlink(path, path) }, "too many levels"},
		{"a link to a file", func(path string) error {
			return errors.Join(os.WriteFile(path+".2", []byte(`{"log": "off"}`), 0o644), os.Symlink(path+".2", path))
		}, ""},
	} {
		t.Run(row.what, func(t *testing.T) {
			d := testnode.Install(t)
			dir := t.TempDir()
			if err := row.make(filepath.Join(filepath.Dir(d.Path), "config.json")); err != nil {
				t.Fatal(err)
			}
			// Killed, it fails like one that prints nothing.
			limited := func(args ...string) *exec.Cmd {
				return d.Execute(append([]string{"timeout", "-s", "KILL", "10", d.Path}, args...))
			}
			if a := d.Run(limited("init")); a.Status != "Success" {
				t.Errorf("init: %+v", a)
			}
			a := d.Run(limited("mount", dir, testnode.GoodOptions))
			if (a.Status == "Success") != (row.problem == "") || !strings.Contains(a.Message, row.problem) {
				t.Errorf("mount: %+v, want %q", a, row.problem)
			}
			if row.problem != "" && !strings.Contains(a.Message, "config.json") {
				t.Errorf("mount does not name the file: %+v", a)
			}
			if a := d.Run(limited("unmount", dir)); a.Status != "Success" {
				t.Errorf("unmount: %+v", a)
			}
		})
	}
}

// The kubelet is a program in Go as well, and what is in its environment for that is
// in ours.
func TestTheRuntimesTracesStayOutOfTheAnswer(t *testing.T) {
	d := testnode.Install(t)
	for _, variable := range []string{"GODEBUG=gctrace=1,gcpacertrace=1,scavtrace=1", "GODEBUG=unknown=1", "GOTRACEBACK=crash", "GOGC=off"} {
		dir := t.TempDir()
		for _, args := range [][]string{{"init"}, {"mount", dir, testnode.GoodOptions}, {"unmount", dir}} {
			command := d.Command(args...)
			command.Env = append(os.Environ(), variable)
			if a := d.Run(command); a.Status != "Success" {
				t.Errorf("%s: %q: %+v", variable, args, a)
			}
		}
	}
}
