package survive

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"example.com/pod-info-fuse/flex"
)

func TestNamesOfProgramsAndDrivers(t *testing.T) {
	for _, row := range []struct{ program, version, name, problem string }{
		{"clock", "1", "example.com/clock", ""},
		{"pod-info-fuse", "1", "v/" + strings.Repeat("d", 78), ""},
		{"pod-info-fuse", "1", "v/" + strings.Repeat("d", 79), `has 81 bytes, and its program's, "pod-info-fuse", 13: together they are 1 too long`},
		{strings.Repeat("p", 80), "1", "example.com/clock", `has 17 bytes, and its program's, "` + strings.Repeat("p", 80) + `", 80: together they are 4 too long`},
		{"", "1", "example.com/clock", `the program's name ""`},
		{"..", "1", "example.com/clock", "does not consist of"},
		{"a/b", "1", "example.com/clock", "does not consist of"},
		{"Clock", "1", "example.com/clock", "does not consist of"},
		{"-", "1", "example.com/clock", "does not consist of"},
		{"clock", "", "example.com/clock", "is no text of 1 to 256 bytes"},
		{"clock", "1.\xff", "example.com/clock", "is no text of 1 to 256 bytes"},
		{"clock", strings.Repeat("1", 257), "example.com/clock", `version "11111111111111111111", of 257 bytes`},
	} {
		name, err := flex.ParseName(row.name)
		if err != nil {
			t.Fatal(err)
		}
		d := Driver{Program: row.program, Version: row.version}
		err = d.CheckName(name)
		if row.problem == "" && err != nil || row.problem != "" && (err == nil || !strings.Contains(err.Error(), row.problem)) {
			t.Errorf("%q of %q: %v, want %q", row.name, row.program, err, row.problem)
		}
		if row.problem != "" {
			continue
		}
		// The kernel agrees, wherever paths of this length begin.
		n := d.NodeFor(name, Settings{})
		dir := "/tmp/" + strings.Repeat("x", len(n.RunDir)-len("/tmp/"))
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
		n.RunDir = filepath.Clean(dir)
		control, err := n.begin().listen()
		if err != nil {
			t.Errorf("%q of %q: %v", row.name, row.program, err)
			continue
		}
		control.Close()
	}
}
