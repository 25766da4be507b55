package command

import (
	"strings"
	"testing"

	"example.com/pod-info-fuse/survive"
)

func TestAStandaloneProgramWithoutASource(t *testing.T) {
	s := Standalone{Driver: survive.Driver{Program: "clock", Version: "1.0.0"}, About: "clock mounts the time."}
	p := Program{Driver: s.Driver}
	if text := s.table(p).Help(); !strings.HasPrefix(text, "clock mounts the time.\n") || !strings.Contains(text, "\n  mount       mount on a directory") {
		t.Errorf("usage: %s", text)
	}
	for _, args := range [][]string{{"mount"}, {"mount", "ARCHIVE", "/mnt"}, {"umount"}, {"stop", "/mnt"}, {"status", "-o", "yaml"}, {"unmount", "/mnt"}, {}} {
		if status := p.exitStatus(s.run(p, append([]string{"clock"}, args...))); status != 2 {
			t.Errorf("%q: exit status %d", args, status)
		}
	}
}
