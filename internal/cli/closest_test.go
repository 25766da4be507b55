package cli

import (
	"strings"
	"testing"
	"time"
)

func TestTheCommandThatWasMeant(t *testing.T) {
	words := []string{"install", "uninstall", "status", "stop", "characterizes", "counterfactuals"}
	started := time.Now()
	for typed, want := range map[string]string{
		"stauts":                        "status",
		"stopp":                         "stop",
		"unstall":                       "install",
		"haracterized":                  "characterizes",
		"characterises":                 "characterizes",
		"counter-factual":               "counterfactuals",
		"xyzxyzxyzxyz":                  "",
		"":                              "",
		strings.Repeat("status", 1<<13): "",
	} {
		if got := closest(typed, words); got != want {
			t.Errorf("%.40q is taken for %q, want %q", typed, got, want)
		}
	}
	if took := time.Since(started); took > 30*time.Second {
		t.Errorf("it took %v", took)
	}
}
