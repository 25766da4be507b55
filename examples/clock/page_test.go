package main

import (
	"os"
	"strings"
	"testing"
)

// The page shows this program as it is.
func TestThePageShowsTheProgram(t *testing.T) {
	var lines string
	for _, path := range []string{"main.go", "survives_test.go"} {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		lines += strings.ReplaceAll(string(text), "\t", "")
	}
	for path, want := range map[string]int{"../../docs/dev/second-driver.md": 3} {
		page, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		shown := 0
		for _, block := range strings.Split(string(page), "```go\n")[1:] {
			block, _, _ = strings.Cut(block, "```")
			if shown++; !strings.Contains(lines, strings.ReplaceAll(block, "\t", "")) {
				t.Errorf("%s shows what no program has:\n%s", path, block)
			}
		}
		if shown != want {
			t.Errorf("%s shows %d parts of the programs, want %d", path, shown, want)
		}
	}
}
