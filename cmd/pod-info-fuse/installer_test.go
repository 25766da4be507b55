package main_test

import (
	"fmt"
	"os/exec"
	"path/filepath"
)

// pluginDir is the plugin directory that the driver has for itself.
func (d installed) pluginDir() string { return filepath.Dir(filepath.Dir(d.path)) }

// installer is a command of the installer, executed from where a version was
// built, for the driver's place.
func (d installed) installer(version, command string, args ...string) *exec.Cmd {
	return d.execute(append([]string{version, command, "--plugin-dir", d.pluginDir(), "--driver", d.name}, args...))
}

// installs runs the installer, which must succeed, and returns what it prints.
func (d installed) installs(version string, args ...string) string {
	d.t.Helper()
	output, err := d.installer(version, "install", args...).CombinedOutput()
	if err != nil {
		d.t.Fatalf("install %q: %v: %s", args, err, output)
	}
	return string(output)
}

// serves checks that the driver is executed and does its work.
func (d installed) serves() {
	d.t.Helper()
	d.must("init")
	dir := d.mount()
	if got := read(d.t, dir, "pod.uid"); got != fmt.Sprintln(podUID) {
		d.t.Errorf("pod.uid is %q", got)
	}
	d.must("unmount", dir)
}
