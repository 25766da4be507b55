package command

import (
	"encoding/json"
	"strings"
	"testing"

	"example.com/pod-info-fuse/survive"
)

// A script finds each of the measures in one place.
func TestConfinementIsToldOnce(t *testing.T) {
	one := &survive.Process{PID: 1, Version: "1.2.3", Confinement: &survive.Confinement{Landlock: true}}
	text, err := json.Marshal(newDaemonReport(survive.Status{Active: one, Standby: one}))
	if err != nil || strings.Count(string(text), `"landlock":true`) != 2 || strings.Count(string(text), `"version":"1.2.3"`) != 2 {
		t.Errorf("%s, %v", text, err)
	}
}
