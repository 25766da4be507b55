package main

import (
	"strings"
	"testing"
	"time"
)

func linesOf(text string) (all []line) {
	for i, l := range strings.Split(text, "\n") {
		all = append(all, line{l, time.Duration(i) * time.Millisecond})
	}
	return all
}

const shown = `The kubelet calls:
# driver mount {"uid":"<1>"}

active    process 96, version 0.1.0
# kill -9 96 && true`

// A picture has the text that it was made from, and differs from another one by words, not by
// numbers.
func TestAPictureShowsItsLines(t *testing.T) {
	text, err := textOf([]byte(picture(`demo "<&>"`, linesOf(shown))))
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		what, printed string
		differs       string // "": no
	}{
		{"the same", shown, ""},
		{"other processes, columns and versions", strings.NewReplacer("96", "12345", "    process", " process", "0.1.0", "0.12.3").Replace(shown), ""},
		{"another word", strings.Replace(shown, "active", "standby", 1), `line 3 is "standby    process`},
		{"a line less", strings.TrimSuffix(shown, "\n# kill -9 96 && true"), `line 4 is "", and was "# kill -9 96 && true"`},
		{"a line more", shown + "\nAn error.", `line 5 is "An error.", and was ""`},
		{"nothing", "", `line 1 is ""`},
	} {
		if got := difference(text, linesOf(row.printed)); (got == "") != (row.differs == "") || !strings.Contains(got, row.differs) {
			t.Errorf("%s: %q, want %q", row.what, got, row.differs)
		}
	}
}

func TestACommandThatFailsMakesNoPicture(t *testing.T) {
	if lines, err := play([]string{"sh", "-c", "echo one; exit 3"}); err == nil || !strings.Contains(err.Error(), "exit status 3") {
		t.Errorf("%v, %v", lines, err)
	}
}
