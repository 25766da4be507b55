package main_test

import (
	"os"
	"strings"
	"testing"

	"example.com/pod-info-fuse/e2e/clitest"
	"example.com/pod-info-fuse/internal/testnode"
)

func TestCommandLineOfTheInstaller(t *testing.T) {
	clitest.Help(t, testnode.Binary)
	d := testnode.Place(t)
	shared := []string{"--driver VENDOR/NAME", "--plugin-dir DIR", "--root DIR", "--watch", "--interval TIME", "--listen ADDRESS"}
	for _, row := range []struct {
		args   string
		exit   int
		output []string // on stdout, if the exit status is 0; else on stderr
	}{
		{"install --help", 0, append([]string{"Usage:\n  pod-info-fuse install [flags]\n", "--config FILE", "--facts-from DIR"}, shared...)},
		{"uninstall --help", 0, append([]string{"Usage:\n  pod-info-fuse uninstall [flags]\n", "--force"}, shared...)},
		{"install -h", 0, []string{"Usage:\n  pod-info-fuse install"}},
		{"install now", 2, []string{`install takes no argument "now"; see pod-info-fuse install --help`}},
		{"uninstall --force now", 2, []string{`uninstall takes no argument "now"`}},
		{"install --force", 2, []string{"unknown flag: --force"}},
		{"install --rollback", 2, []string{"unknown flag: --rollback"}},
		{"install --interval 1s", 2, []string{"--interval and --listen go with --watch"}},
		{"uninstall --listen :0", 2, []string{"--interval and --listen go with --watch"}},
		{"install --watch --interval 0s", 2, []string{"--interval is 0s; it must be more than 0"}},
		{"uninstall --watch --interval -1s", 2, []string{"--interval is -1s"}},
		{"install --watch --interval often", 2, []string{`"often"`}},
		{"install --watch --listen 9808", 1, []string{"serve metrics: listen tcp: address 9808: missing port in address"}},
		{"install --close-flexvolume", 2, []string{"--close-flexvolume goes with --watch and --plugin-dir"}},
		{"install --watch --close-flexvolume=", 2, []string{"--close-flexvolume is empty"}},
		{"install --plugin-dir=", 2, []string{"--plugin-dir is empty"}},
		{"uninstall --root=", 2, []string{"--root is empty"}},
		{"install --driver no-vendor", 1, []string{`driver name "no-vendor" is not of the form vendor/driver`}},
		{"uninstall --driver ../x", 1, []string{`driver name "../x" is not of the form vendor/driver`}},
		{"install --facts-from /no/such/directory", 2, []string{`"--facts-from" flag: open /no/such/directory: no such file`}},
		{"install --config /no/such/directory/file", 1, []string{"/no/such/directory"}},
		{"install --config " + t.TempDir() + "/file", 1, []string{"file: no such file or directory"}},
	} {
		words := strings.Fields(row.args)
		command := d.Installer(testnode.Binary, words[0], words[1:]...)
		var stdout, stderr strings.Builder
		command.Stdout, command.Stderr = &stdout, &stderr
		if err := command.Run(); command.ProcessState == nil || command.ProcessState.ExitCode() != row.exit {
			t.Errorf("%s: %v, want exit status %d", row.args, err, row.exit)
		}
		output, other := stderr.String(), stdout.String()
		if row.exit == 0 {
			output, other = other, output
		}
		for _, text := range row.output {
			if !strings.Contains(output, text) || other != "" {
				t.Errorf("%s: %q, want %q; and %q", row.args, output, text, other)
			}
		}
		if names, err := os.ReadDir(d.PluginDir()); err != nil || len(names) > 0 {
			t.Errorf("%s: it made %v, %v", row.args, names, err)
		}
	}
}
