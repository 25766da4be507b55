// Package clitest tests the command line of a program.
package clitest

import (
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var examples = regexp.MustCompile(`(?m)^Examples:\n  (.*)$`)

// Help checks the help of each command of a program: it is on stdout, has a sentence, and an
// example whose flags and arguments the command takes.
func Help(t *testing.T, binary string) {
	t.Helper()
	call := func(args ...string) (stdout string) {
		command := exec.Command(binary, args...)
		var out, problem strings.Builder
		command.Stdout, command.Stderr = &out, &problem
		if err := command.Run(); err != nil || problem.Len() > 0 {
			t.Errorf("%q: %v, stderr %q", args, err, problem.String())
		}
		return out.String()
	}
	words, err := exec.Command(binary, "__completeNoDesc", "").Output() // as a shell asks
	if err != nil {
		t.Fatal(err)
	}
	commands := slices.DeleteFunc(strings.Fields(string(words)), func(name string) bool {
		return name == "completion" || strings.HasPrefix(name, ":") // cobra's own, and what a shell is told besides
	})
	if len(commands) < 4 {
		t.Fatalf("the commands are %q", commands)
	}
	for _, name := range commands {
		help := call(name, "--help")
		sentence, _, _ := strings.Cut(help, "\n\n")
		example := examples.FindStringSubmatch(help)
		if !strings.Contains(help, "\n\nUsage:\n") || !strings.HasSuffix(strings.TrimSpace(sentence), ".") || example == nil {
			t.Errorf("%s --help: %q", name, help)
			continue
		}
		// What stands before --help is read, and nothing is executed.
		line, _, _ := strings.Cut(example[1], "|")
		line, _, _ = strings.Cut(line, ">")
		line, _, dashes := strings.Cut(line, " -- ")
		words := append(strings.Fields(line)[1:], "--help")
		if !strings.Contains(call(words...), "\n\nUsage:\n") || !dashes && words[0] != name {
			t.Errorf("the example of %s is %q", name, example[1])
		}
	}
}
