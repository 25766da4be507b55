package command

import (
	"encoding/json"
	"strings"
	"testing"

	"example.com/pod-info-fuse/survive"
	"example.com/pod-info-fuse/survive/internal/pair"
)

// A script finds each of the measures in one place.
func TestConfinementIsToldOnce(t *testing.T) {
	one, seen := pair.Process{Version: "1.2.3", Landlock: true}, &survive.Process{PID: 1}
	now := survive.Status{Daemon: &pair.Report{Active: one, Standby: &one}, Active: seen, Standby: seen}
	text, err := json.Marshal(newDaemonReport(now, survive.User{}))
	if err != nil || strings.Count(string(text), `"landlock":true`) != 2 || strings.Count(string(text), `"version":"1.2.3"`) != 2 {
		t.Errorf("%s, %v", text, err)
	}
}
