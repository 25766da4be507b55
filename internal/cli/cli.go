// Package cli is the command line of a program: one table of its commands. From it come what is
// executed, the help, the manual page, and what a shell completes, so that none of them says
// anything that the others don't.
package cli

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// Table describes a program.
type Table struct {
	Program string
	Version string
	// About is the first sentence of the help: "PROGRAM is ...".
	About string
	// CallOuts are what a kubelet executes. The help shows them, and Run does not know them.
	CallOuts []Command
	// Commands are those for people, in the order of the help. Each table has help, completion and
	// version besides.
	Commands []Command
	// Note is the last paragraph of the help.
	Note string
}

// Command is a command for people.
type Command struct {
	Name string // no call-out's, and no other command's
	// Args are the arguments beside flags: "FILE", "[DIR]" if it can be left out, "[ARGUMENT...]"
	// for any number. A command gets as many as this says.
	Args string
	// Help says what the command does: a sentence without its capital letter and its full stop.
	Help string
	// More are further paragraphs, for those who ask for the help of this command. A line that
	// begins with a blank stays as it is.
	More string
	// Example is a command line that can be copied, without the program's name at its beginning.
	Example string
	// Choices are all values that the first argument can have; nil: any.
	Choices []string
	// Prepare declares the command's flags in a set. When the set has been read, run executes the
	// command, with the arguments that are left.
	Prepare func(set *pflag.FlagSet) (run func(args []string) error)
}

// UsageError is an error in a command line.
type UsageError struct{ error }

// Usage makes a UsageError of an error.
func Usage(err error) error { return UsageError{err} }

// Status is the exit status of a command that has said everything else.
type Status int

func (s Status) Error() string { return fmt.Sprintf("exit status %d", int(s)) }

// All returns all commands: the program's own, and those of each table.
func (t Table) All() []Command {
	shells := []string{"bash", "zsh", "fish"}
	return append(slices.Clone(t.Commands),
		Command{
			Name: "completion", Args: "SHELL [WORD...]", Choices: shells, Prepare: t.completion,
			Help:    "print what lets a shell complete commands and flags; SHELL is " + strings.Join(shells, ", "),
			More:    "The packages have it where the shells look for it. It asks this command what the last WORD of a line can be.",
			Example: "completion bash >/etc/bash_completion.d/" + t.Program,
		},
		Command{
			Name: "help", Args: "[COMMAND]", Prepare: t.help,
			Help: "print all commands, or what COMMAND --help prints", Example: "help --man | man -l -",
		},
		Command{
			Name: "version", Prepare: t.version,
			Help: "print the version", Example: "version -o json",
		})
}

// Has tells whether there is a command of a name.
func (t Table) Has(name string) bool { _, ok := t.find(name); return ok }

// Run executes a command.
func (t Table) Run(name string, args []string) error {
	c, ok := t.find(name)
	if !ok {
		return fmt.Errorf("%w; see %s help", unknown(name), t.Program)
	}
	set, run := c.flags()
	err := set.Parse(args)
	if errors.Is(err, pflag.ErrHelp) {
		_, err := fmt.Print(t.helpOf(c))
		return err
	} else if err != nil {
		err = Usage(err)
	} else if err = c.takes(set.Args()); err == nil {
		err = run(set.Args())
	}
	if _, is := errors.AsType[UsageError](err); is {
		err = fmt.Errorf("%w; see %s %s --help", err, t.Program, c.Name)
	}
	return err
}

func (t Table) find(name string) (Command, bool) {
	switch name {
	case "--version":
		name = "version"
	case "--help", "-h":
		name = "help"
	}
	all := t.All()
	i := slices.IndexFunc(all, func(c Command) bool { return c.Name == name })
	if i < 0 {
		return Command{}, false
	}
	return all[i], true
}

// flags declares the command's flags in a new set.
func (c Command) flags() (set *pflag.FlagSet, run func([]string) error) {
	set = pflag.NewFlagSet(c.Name, pflag.ContinueOnError)
	set.Usage = func() {}
	if c.Prepare != nil { // it is no call-out
		run = c.Prepare(set)
	}
	return set, run
}

// takes returns an error if the command does not take as many arguments.
func (c Command) takes(args []string) error {
	var needed []string
	most, anyNumber := 0, false
	for _, word := range strings.Fields(c.Args) {
		switch {
		case word == "--":
			continue
		case strings.Contains(word, "..."):
			anyNumber = true
		case !strings.HasPrefix(word, "["):
			needed = append(needed, word)
		}
		most++
	}
	switch {
	case len(args) < len(needed):
		return Usage(fmt.Errorf("%s needs %s", c.Name, strings.Join(needed, " ")))
	case len(args) > most && !anyNumber:
		return Usage(fmt.Errorf("%s takes no argument %q", c.Name, args[most]))
	case len(c.Choices) > 0 && len(args) > 0 && !slices.Contains(c.Choices, args[0]):
		return Usage(fmt.Errorf("%s: there is no %q, only %s", c.Name, args[0], strings.Join(c.Choices, ", ")))
	}
	return nil
}

func (t Table) version(set *pflag.FlagSet) func([]string) error {
	output := OutputFlag(set, "text")
	return func([]string) error {
		if output.JSON() {
			return PrintJSON(map[string]string{"program": t.Program, "version": t.Version})
		}
		_, err := fmt.Println(t.Program, t.Version)
		return err
	}
}

func (t Table) help(set *pflag.FlagSet) func([]string) error {
	man := set.Bool("man", false, "print the manual page, in roff(7)")
	return func(args []string) error {
		text := t.Help()
		if *man {
			text = t.manual()
		}
		if len(args) == 1 {
			c, ok := t.find(args[0])
			if i := slices.IndexFunc(t.CallOuts, func(c Command) bool { return c.Name == args[0] }); i >= 0 {
				c, ok = t.CallOuts[i], true
			}
			if !ok {
				return unknown(args[0])
			}
			text = t.helpOf(c)
		}
		_, err := os.Stdout.WriteString(text)
		return err
	}
}

// unknown is the error of a person who has mistyped a command.
func unknown(name string) error {
	return Usage(fmt.Errorf("unknown command %q", name))
}
