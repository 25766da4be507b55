package main_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func configure(t *testing.T, d installed, config string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(filepath.Dir(d.path), "config.json"), []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
}

func TestTheLogHasALinePerCallOutAndNoSecret(t *testing.T) {
	d := install(t)
	path := filepath.Join(t.TempDir(), "driver.log")
	configure(t, d, fmt.Sprintf(`{"log": %q}`, path))
	dir := t.TempDir()
	const secret = "aHVudGVyMg=="
	withSecret := edit("{", `{"kubernetes.io/secret/password":"`+secret+`",`)
	d.must("init")
	d.must("mount", dir, withSecret)
	d.must("unmount", dir)
	for _, args := range [][]string{
		{"mount", dir, strings.Replace(withSecret, "{", `{"colour":"`+secret+`",`, 1)},
		{"mount", dir, withSecret, secret},
		{"mount", dir, withSecret + secret},
		{"attach", withSecret, "node"},
		{"getvolumename", secret},
	} {
		if a := d.call(args...); strings.Contains(a.Message, secret) {
			t.Errorf("%q: the answer has the secret in it: %s", args, a.Message)
		}
	}
	var lines []string
	for line := range strings.Lines(read(t, path)) {
		if !strings.Contains(line, "]: daemon: ") {
			lines = append(lines, line)
		}
	}
	for i, want := range []string{
		`init: Success in [\d.]+(m|µ)s`,
		`mount ` + dir + `: Success in [\d.]+ms`,
		`unmount ` + dir + `: Success in [\d.]+(m|µ)s`,
		`mount ` + dir + `: Failure: option "colour" is not known.* in `,
		`mount ` + dir + `: Failure: .*has 3 in `,
		`mount ` + dir + `: Failure: .*after the JSON object in `,
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
	d := install(t)
	dir := d.mount()
	configure(t, d, `{"lug": "off"}`)
	other := t.TempDir()
	if a := d.call("mount", other, goodOptions); a.Status != "Failure" || !strings.Contains(a.Message, `"lug"`) || !strings.Contains(a.Message, "config.json") {
		t.Errorf("mount: %+v", a)
	}
	if mountsOn(t, other) != 0 || len(d.records()) != 1 {
		t.Errorf("%d mounts, records %q", mountsOn(t, other), d.records())
	}
	if s := d.status(); !strings.Contains(s.ConfigError, `"lug"`) {
		t.Errorf("status: %+v", s)
	}
	d.must("init")
	d.must("unmount", dir)
}
