package cgroup

import "testing"

func TestACgroupSaysWhoseItIs(t *testing.T) {
	for driver, want := range map[string]string{
		"pod-info-fuse-example.com/pod-info-fuse": "pod-info-fuse-example.com~pod-info-fuse~7",
		"pod-info-fuse-A_b/c-d.e":                 "pod-info-fuse-A_b~c-d.e~7",
	} {
		if got := ownName(driver, 7); got != want {
			t.Errorf("cgroup of %q: %q, want %q", driver, got, want)
		}
	}
	for name, want := range map[string]bool{
		ownName("pod-info-fuse-a/b", 7): true, ownName("pod-info-fuse-a/b", 7) + "1": true,
		ownName("pod-info-fuse-a/b~7", 8): false, ownName("pod-info-fuse-c/b", 7): false,
		"pod-info-fuse-a~b": false, "pod-info-fuse-a~b~x": false, "pod-info-fuse-a-b-7": false, "a~b~7": false, "7": false, "": false,
	} {
		if got := isOwn("pod-info-fuse-a/b", name); got != want {
			t.Errorf("%q: %v, want %v", name, got, want)
		}
	}
}
