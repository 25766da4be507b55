package proc

import (
	"strings"
	"testing"
	"time"
)

func TestRun(t *testing.T) {
	for name, row := range map[string]struct {
		script      string
		output, err string
	}{
		"both streams":       {"echo one; echo two >&2", "one\ntwo\n", ""},
		"nothing":            {":", "", ""},
		"a status":           {"echo why; exit 7", "why\n", "exit status 7: why"},
		"a signal":           {"kill -9 $$", "", "signal: killed"},
		"more than is kept":  {"head -c 1000000 /dev/zero | tr '\\0' x", strings.Repeat("x", maxOutput), ""},
		"no environment":     {"echo \"$HOME$KUBECONFIG$LD_PRELOAD\"", "\n", ""},
		"working directory":  {"pwd", "/\n", ""},
		"nobody types":       {"read x || echo end", "end\n", ""},
		"longer than it may": {"echo begins; exec sleep 10", "", "no end after 300ms"},
	} {
		limit := time.Minute
		if name == "longer than it may" {
			limit = 300 * time.Millisecond
		}
		output, err := Run(limit, "/bin/sh", "sh", "-c", row.script)
		if string(output) != row.output || (err == nil) != (row.err == "") || err != nil && !strings.Contains(err.Error(), row.err) {
			t.Errorf("%s: %.100q, %v; want %.100q, %q", name, output, err, row.output, row.err)
		}
	}
}
