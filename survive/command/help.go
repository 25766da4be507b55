package command

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/pflag"
)

// commands are all commands for people, in the order of the help.
func (p Program) commands() []Command {
	all := append([]Command{
		{"install", "", "put this binary into the kubelet's plugin directory, in the\nplace of the version before; --rollback undoes it, --watch\nkeeps it there; see install --help", Program.install},
		{"uninstall", "", "end the daemon and remove the driver from the node; refuses\nwhile volumes are in use; see uninstall --help", Program.uninstall},
		{"status", "[-o json]", "show the node's mount, the daemon and the volumes", Program.status},
		{"stop", "[--force]", "end the daemon and remove the mount; refuses while volumes\nare mounted, which --force unmounts", Program.stop},
		{"upgrade", "", "let this version take over from the one that serves, as init\ndoes", Program.upgrade},
		{"restore", "", "heal volumes whose daemon has died, as init does, and say what\nwas done", Program.restore},
		{"watch", "FILE", "read a file again and again, and on a terminal show who\nanswers, take-overs and stalls; see watch --help", Program.watch},
	}, p.Commands...)
	return append(all, Command{"version", "", "print the version", Program.version}, Command{"help", "", "print this text", Program.help})
}

func (p Program) version([]string) error {
	_, err := fmt.Println(p.Program, p.Version)
	return err
}

func (p Program) help([]string) error {
	_, err := fmt.Print(p.usage())
	return err
}

func (p Program) usage() string {
	var text strings.Builder
	fmt.Fprintf(&text, `%s

Call-outs, which the kubelet executes; each prints one JSON object:
  init               tell the driver's capabilities
  mount DIR JSON     mount a volume on DIR
  unmount DIR        unmount it

Commands, for people:
`, p.About)
	for _, c := range p.commands() {
		fmt.Fprintf(&text, "  %-18s %s\n", strings.TrimSpace(c.Name+" "+c.Args), strings.ReplaceAll(c.Help, "\n", "\n"+strings.Repeat(" ", 21)))
	}
	fmt.Fprintf(&text, `
A flag of most commands; COMMAND --help lists all that it has:
  --driver VENDOR/NAME   the driver to look at, when the binary is not in a
                         directory vendor~name (default %s)
`, p.Name)
	return text.String()
}

// UsageError prints the error of a command line. Run returns its result.
func (p Program) UsageError(err error) error {
	if err == nil || errors.Is(err, pflag.ErrHelp) {
		return err
	}
	fmt.Fprintf(os.Stderr, "%s: %s; see %[1]s help\n", p.Program, lines(err.Error()))
	return errUsage
}

// unknownCommand is the error of a person who mistyped a command.
func (p Program) unknownCommand(name string) error {
	known := []string{"init", "mount", "unmount"}
	for _, c := range p.commands() {
		known = append(known, c.Name)
	}
	err := fmt.Errorf("unknown command %q", name)
	if meant := closest(name, known); meant != "" {
		err = fmt.Errorf("%w, did you mean %q", err, meant)
	}
	return p.UsageError(err)
}

// closest returns the word that takes the fewest edits, "" if all take more than half of
// the name's letters.
func closest(name string, words []string) (best string) {
	least := len(name)/2 + 1
	for _, word := range words {
		if n := edits(name, word); n < least {
			best, least = word, n
		}
	}
	return best
}

// edits counts the letters to insert, remove or replace that make a word of another one
// (Levenshtein's distance, in the table of Wagner and Fischer).
func edits(from, to string) int {
	row := make([]int, len(to)+1) // from what was read of from, to each beginning of to
	for j := range row {
		row[j] = j
	}
	for i := range len(from) {
		diagonal := i
		row[0] = i + 1
		for j := range len(to) {
			least := diagonal
			if from[i] != to[j] {
				least = 1 + min(diagonal, row[j], row[j+1])
			}
			diagonal, row[j+1] = row[j+1], least
		}
	}
	return row[len(to)]
}
