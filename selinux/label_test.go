package selinux_test

import (
	"strings"
	"testing"

	"example.com/pod-info-fuse/selinux"
)

func TestCheckLabel(t *testing.T) {
	for _, row := range []struct{ label, problem string }{
		{selinux.DefaultLabel, ""},
		{"system_u:object_r:container_file_t:s0:c1,c2", ""},
		{"system_u:object_r:container_file_t:s0-s15:c0.c1023", ""},
		{"system_u:object_r:container_file_t", ""}, // a policy without levels
		{"system_u:object_r:my-type.sub_t:s0", ""},
		{"", "user:role:type:level"},
		{"container_file_t", "user:role:type:level"},
		{"system_u:object_r", "user:role:type:level"},
		{"system_u::container_file_t:s0", "user:role:type:level"},
		{":object_r:container_file_t:s0", "user:role:type:level"},
		{"system_u:object_r:container_file_t:", "user:role:type:level"},
		{"system_u:object_r:container_file_t:s0:", "user:role:type:level"},
		{`system_u:object_r:container_file_t:s0",suid,x="`, "other characters"},
		{`system_u:object_r:container_file_t:s0\`, "other characters"},
		{"system_u:object_r:container_file_t:s0 ", "other characters"},
		{"system_u:object_r:container_file_t:s0\n", "other characters"},
		{"system_u:object_r:container_file_t:s0\x00", "other characters"},
		{"system_u:object_r:container_file_t:s\u00e9", "other characters"},
		{"system_u:object_r:container_file_t:s0\xff", "other characters"},
		{"system_u:object_r:" + strings.Repeat("t", 1000), "longer"},
	} {
		err := selinux.CheckLabel(row.label)
		if row.problem == "" && err != nil || row.problem != "" && (err == nil || !strings.Contains(err.Error(), row.problem)) {
			t.Errorf("%q: %v, want %q", row.label, err, row.problem)
		}
	}
}

// The first three are what Linux 6.1 shows of our mounts.
func TestLabelOfAMount(t *testing.T) {
	const label, ours = "system_u:object_r:container_file_t:s0", ",user_id=0,group_id=0,default_permissions,allow_other,max_read=4096"
	for options, want := range map[string]string{
		"ro,context=" + label + ours:              label,
		`ro,context="` + label + `:c1,c2"` + ours: label + ":c1,c2",
		"ro" + ours:               "",
		"":                        "",
		"context=" + label:        label,
		"rw,seclabel":             "",
		"rw,rootcontext=" + label: "",
		"rw,fscontext=" + label + ",context=a:b:c":  "a:b:c",
		`rw,fscontext="a:b:c:s0:c1,context=x",user`: "",
	} {
		if got := selinux.LabelOf(options); got != want {
			t.Errorf("%s: %q, want %q", options, got, want)
		}
	}
}
