package cgroup

import "testing"

func TestNamesAreValid(t *testing.T) {
	for _, row := range []struct{ driver, scope, own string }{
		{"example.com/pod-info-fuse", "pod-info-fuse-example.com-pod-info-fuse-7.scope", "pod-info-fuse-example.com~pod-info-fuse"},
		{"A_b/c-d.e", "pod-info-fuse-A_b-c-d.e-7.scope", "pod-info-fuse-A_b~c-d.e"},
		{"a@b/c~d", `pod-info-fuse-a\x40b-c\x7ed-7.scope`, "pod-info-fuse-a@b~c~d"},
		{"a b/\xc3\xa4", `pod-info-fuse-a\x20b-\xc3\xa4-7.scope`, "pod-info-fuse-a b~\xc3\xa4"},
	} {
		if got := scopeName(row.driver, 7); got != row.scope {
			t.Errorf("scope of %q: %q, want %q", row.driver, got, row.scope)
		}
		if got := ownName(row.driver); got != row.own {
			t.Errorf("cgroup of %q: %q, want %q", row.driver, got, row.own)
		}
	}
}
