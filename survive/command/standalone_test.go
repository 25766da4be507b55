package command

import (
	"errors"
	"strings"
	"testing"

	"example.com/pod-info-fuse/survive"
)

func TestAStandaloneProgramWithoutASource(t *testing.T) {
	s := Standalone{Driver: survive.Driver{Program: "clock", Version: "1.0.0"}, About: "clock mounts the time."}
	if text := s.usage(); !strings.HasPrefix(text, "clock mounts the time.\n\n  mount DIR      ") {
		t.Errorf("usage: %s", text)
	}
	p := Program{Driver: s.Driver}
	for _, args := range [][]string{{"mount"}, {"mount", "ARCHIVE", "/mnt"}, {"umount"}, {"stop", "/mnt"}, {"status", "-o", "yaml"}, {"unmount", "/mnt"}, {}} {
		if err := s.run(p, append([]string{"clock"}, args...)); !errors.Is(err, errUsage) {
			t.Errorf("%q: %v", args, err)
		}
	}
}
