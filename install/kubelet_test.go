package install

import (
	"slices"
	"strings"
	"testing"
)

// Whatever a process is called with, it is either no kubelet's command line, or
// one whose plugin directory is found.
func FuzzKubeletArgs(f *testing.F) {
	f.Add("kubelet\x00--config=/x\x00-v\x002", 2, "/plugins")
	f.Add("/kubelet\x00--config\x00/x", 2, "/with = and space")
	f.Add("", 0, "x")
	f.Add("kubelet\x00-\x00--\x00---\x00=\x00--=", 1, "--")
	f.Fuzz(func(t *testing.T, text string, at int, dir string) {
		line := strings.Split(text, "\x00")
		_, is := kubeletArgs(line)
		if !is || strings.Contains(text, "volume-plugin-dir") {
			return
		}
		at = 1 + int(uint(at)%uint(len(line))) // after the program's name
		flags, is := kubeletArgs(slices.Insert(line, at, "--volume-plugin-dir="+dir))
		if got := flags["volume-plugin-dir"]; !is || got != dir {
			t.Errorf("%q with --volume-plugin-dir=%q at %d: %q, %v", text, dir, at, got, is)
		}
	})
}
