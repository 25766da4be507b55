package cgroup

import "testing"

func TestNamesAreValid(t *testing.T) {
	for _, row := range []struct{ driver, scope, own string }{
		{"pod-info-fuse-example.com/pod-info-fuse", "pod-info-fuse-example.com-pod-info-fuse-7.scope", "pod-info-fuse-example.com~pod-info-fuse~7"},
		{"pod-info-fuse-A_b/c-d.e", "pod-info-fuse-A_b-c-d.e-7.scope", "pod-info-fuse-A_b~c-d.e~7"},
	} {
		if got := scopeName(row.driver, 7); got != row.scope {
			t.Errorf("scope of %q: %q, want %q", row.driver, got, row.scope)
		}
		if got := ownName(row.driver, 7); got != row.own {
			t.Errorf("cgroup of %q: %q, want %q", row.driver, got, row.own)
		}
	}
}

func TestACgroupSaysWhoseItIs(t *testing.T) {
	for name, want := range map[string]bool{
		ownName("pod-info-fuse-a/b", 7): true, scopeName("pod-info-fuse-a/b", 7): true,
		ownName("pod-info-fuse-a/b", 7) + "1": true,
		ownName("pod-info-fuse-a/b~7", 8):     false, scopeName("pod-info-fuse-a/b-7", 8): false,
		ownName("pod-info-fuse-c/b", 7): false, scopeName("pod-info-fuse-c/b", 7): false,
		"pod-info-fuse-a~b": false, "pod-info-fuse-a~b~x": false, "a~b~7": false, "7": false, "7.scope": false,
		"pod-info-fuse-a~b~7.scope": false, "pod-info-fuse-a-b-7": false,
	} {
		if got := isOurs("pod-info-fuse-a/b", name); got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}
