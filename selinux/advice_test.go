package selinux_test

import (
	"strings"
	"testing"

	"example.com/pod-info-fuse/selinux"
)

// One situation in which there is nothing to do, and one mutation a row.
func TestAdvice(t *testing.T) {
	for name, row := range map[string]struct {
		mutate func(*selinux.Situation)
		want   string
		run    bool // setsebool is to be run
	}{
		"labelled":    {func(*selinux.Situation) {}, "There is nothing to do", false},
		"the boolean": {func(s *selinux.Situation) { s.Boolean = selinux.On }, "There is nothing to do", false},
		"absent":      {func(s *selinux.Situation) { *s = selinux.Situation{Mode: selinux.Absent} }, "not enabled on this node. There is nothing to do", false},
		"permissive":  {func(s *selinux.Situation) { s.Mode = selinux.Permissive }, "Nothing is denied", false},
		"categories":  {func(s *selinux.Situation) { s.Label += ":c1,c2" }, "There is nothing to do", false},
		"old name":    {func(s *selinux.Situation) { s.Label = "system_u:object_r:svirt_sandbox_file_t:s0" }, "There is nothing to do", false},
		"other type":  {func(s *selinux.Situation) { s.Label = "system_u:object_r:usr_t:s0" }, "may read the type usr_t", false},
		"not mounted": {func(s *selinux.Situation) { s.Mounted, s.Label = false, "" }, "Nothing is mounted yet", false},
		"refused":     {func(s *selinux.Situation) { s.Label = "" }, "the policy refused\n" + selinux.DefaultLabel + ", which the log tells; or they were mounted before the\ndriver was configured to use it. Then run \"a-driver stop\"", true},
		"none":        {none, `"selinuxContext": "none"`, true},
		"none, nothing mounted": {func(s *selinux.Situation) { none(s); s.Mounted = false },
			"denied until\n", true},
		"none, and on":         {func(s *selinux.Situation) { none(s); s.Boolean = selinux.On }, "keep it on", true},
		"none, no boolean":     {func(s *selinux.Situation) { none(s); s.Boolean = selinux.NoSuch }, "ausearch", false},
		"none, not readable":   {func(s *selinux.Situation) { none(s); s.Boolean = selinux.NotKnown }, "could not be read", false},
		"none, but permissive": {func(s *selinux.Situation) { none(s); s.Mode = selinux.Permissive }, "Nothing is denied", true},
	} {
		s := selinux.Situation{
			Program: "a-driver", Mode: selinux.Enforcing, Mounted: true, Label: selinux.DefaultLabel,
			Wanted: selinux.DefaultLabel, Boolean: selinux.Off,
		}
		row.mutate(&s)
		advice := s.Advice()
		if !strings.Contains(advice, row.want) || strings.Contains(advice, "setsebool -P virt_sandbox_use_fusefs 1") != row.run {
			t.Errorf("%s: %s; want %q, and setsebool: %v", name, advice, row.want, row.run)
		}
	}
}

func none(s *selinux.Situation) { s.Label, s.Wanted = "", "" }
