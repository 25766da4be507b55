package command

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"example.com/pod-info-fuse/survive"
	"example.com/pod-info-fuse/survive/internal/pair"
)

// A script finds each of the measures in one place.
func TestConfinementIsToldOnce(t *testing.T) {
	one := pair.Process{PID: os.Getpid(), Version: "1.2.3", Landlock: true}
	text, err := json.Marshal(newDaemonReport(survive.Status{Daemon: &pair.Report{Active: one, Standby: &one}}, survive.User{}))
	if err != nil || strings.Count(string(text), `"landlock":true`) != 2 || strings.Count(string(text), `"version":"1.2.3"`) != 2 {
		t.Errorf("%s, %v", text, err)
	}
}
