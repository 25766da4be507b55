// Package cli is the command line of a program: one table of its commands. From it come what is
// executed, the help, the manual page, and what a shell completes, so that none of them says
// anything that the others don't. All of it but the manual page is cobra's.
package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Table describes a program.
type Table struct {
	Program string
	Version string
	// About is the first sentence of the help: "PROGRAM is ...".
	About string
	// CallOuts are what a kubelet executes. They are topics of the help, and Run does nothing else
	// with them.
	CallOuts []Command
	// Commands are those for people, in the order of the help. Each table has help, completion and
	// version besides.
	Commands []Command
	// Note is the second paragraph of the help.
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

// Run executes a command.
func (t Table) Run(name string, args []string) error {
	root := t.root()
	if name = nameOf(name); !has(root, name) {
		return fmt.Errorf("%w; see %s help", unknown(name), t.Program)
	}
	root.SetArgs(append([]string{name}, args...))
	c, err := root.ExecuteC()
	if of, is := err.(ranError); is {
		err = of.error
	} else if err != nil {
		err = Usage(err)
	}
	if _, is := errors.AsType[UsageError](err); is {
		err = fmt.Errorf("%w; see %s --help", err, c.CommandPath())
	}
	return err
}

// ranError is the error of a command. Others are of the command line.
type ranError struct{ error }

// Has tells whether there is a command of a name.
func (t Table) Has(name string) bool { return has(t.root(), nameOf(name)) }

// has also knows the two commands that shells call, which cobra adds only when it executes one.
func has(root *cobra.Command, name string) bool {
	return name == cobra.ShellCompRequestCmd || name == cobra.ShellCompNoDescRequestCmd ||
		slices.ContainsFunc(root.Commands(), func(c *cobra.Command) bool { return c.Name() == name })
}

func nameOf(word string) string {
	switch word {
	case "--version":
		return "version"
	case "--help", "-h":
		return "help"
	}
	return word
}

// unknown is the error of a person who has mistyped a command.
func unknown(name string) error { return Usage(fmt.Errorf("unknown command %q", name)) }

// root is the program, with all commands: its own, and those of each table.
func (t Table) root() *cobra.Command {
	cobra.EnableCommandSorting = false
	root := &cobra.Command{Use: t.Program, Long: wrap(t.About+"\n\n"+t.Note, width), SilenceErrors: true, SilenceUsage: true}
	for _, c := range t.Commands {
		root.AddCommand(c.prepared(root))
	}
	for _, c := range t.CallOuts {
		help := "for the kubelet: " + c.Help
		root.AddCommand(&cobra.Command{Use: c.Name, Short: help, Long: strings.TrimSpace(t.Program+" "+c.Name+" "+c.Args) + "\n\n" + sentence(help)})
	}
	root.InitDefaultCompletionCmd()
	completion, _, _ := root.Find([]string{"completion"})
	for _, shell := range completion.Commands() {
		write := shell.RunE
		shell.RunE = func(c *cobra.Command, args []string) error {
			if err := write(c, args); err != nil {
				return ranError{err}
			}
			return nil
		}
	}
	completion.RunE = func(*cobra.Command, []string) error { return ranError{Usage(errors.New("completion needs a shell"))} }
	help := Command{
		Name: "help", Args: "[COMMAND]", Prepare: t.help,
		Help: "print all commands, or what COMMAND --help prints", Example: "help --man | man -l -",
	}.prepared(root)
	help.ValidArgsFunction = nil
	for _, c := range root.Commands() {
		help.ValidArgs = append(help.ValidArgs, c.Name())
	}
	root.SetHelpCommand(help)
	root.InitDefaultHelpCmd()
	root.AddCommand(Command{Name: "version", Prepare: t.version, Help: "print the version", Example: "version -o json"}.prepared(root))
	usage := root.UsageFunc()
	root.SetUsageFunc(func(c *cobra.Command) error { // cobra's has lines of any length
		c.Flags().VisitAll(func(f *pflag.Flag) { f.Usage = wrap(f.Usage, width-30) })
		for _, of := range c.Commands() {
			column := len("  ") + of.NamePadding() + len(" ")
			of.Short = strings.ReplaceAll(wrap(of.Short, width-column), "\n", "\n"+strings.Repeat(" ", column))
		}
		return usage(c)
	})
	return root
}

// prepared is the command with its flags.
func (c Command) prepared(root *cobra.Command) *cobra.Command {
	p := &cobra.Command{
		Use: strings.TrimSpace(c.Name + " [flags] " + c.Args), Short: c.Help, Long: wrap(sentence(c.Help)+"\n\n"+c.More, width),
		Args: func(_ *cobra.Command, args []string) error { return c.takes(args) },
	}
	if c.Example != "" {
		p.Example = "  " + root.Name() + " " + c.Example
	}
	if c.Args == "" {
		p.ValidArgsFunction = cobra.NoFileCompletions
	}
	run := c.Prepare(p.Flags())
	p.RunE = func(_ *cobra.Command, args []string) error {
		if err := run(args); err != nil {
			return ranError{err}
		}
		return nil
	}
	p.Flags().BoolP("help", "h", false, "print what the command does")
	p.Flags().VisitAll(func(f *pflag.Flag) {
		if v, is := f.Value.(interface{ choices() []string }); is {
			_ = p.RegisterFlagCompletionFunc(f.Name, cobra.FixedCompletions(v.choices(), cobra.ShellCompDirectiveNoFileComp))
		}
	})
	return p
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
		return fmt.Errorf("%s needs %s", c.Name, strings.Join(needed, " "))
	case len(args) > most && !anyNumber:
		return fmt.Errorf("%s takes no argument %q", c.Name, args[most])
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
