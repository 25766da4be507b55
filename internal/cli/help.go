package cli

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// width is how many columns the help has.
const width = 80

// Help is the help of the program.
func (t Table) Help() string { return helpOf(t.root()) }

func helpOf(c *cobra.Command) string {
	var text strings.Builder
	c.SetOut(&text)
	_ = c.Help() // which writes to the text
	return text.String()
}

// help is the command of that name.
func (t Table) help(set *pflag.FlagSet) func([]string) error {
	man := set.Bool("man", false, "print the manual page, in roff(7)")
	return func(args []string) error {
		if *man {
			_, err := os.Stdout.WriteString(t.manual())
			return err
		}
		c, _, err := t.root().Find(args)
		if err != nil {
			return unknown(args[0])
		}
		_, err = os.Stdout.WriteString(helpOf(c)) // cobra would lose the error
		return err
	}
}

// sentence makes a sentence of a command's help.
func sentence(help string) string { return strings.ToUpper(help[:1]) + help[1:] + "." }

// wrap breaks paragraphs into lines. It leaves one as it is that begins with a blank.
func wrap(text string, width int) string {
	paragraphs := strings.Split(strings.TrimRight(text, "\n"), "\n\n")
	for i, paragraph := range paragraphs {
		if strings.HasPrefix(paragraph, " ") {
			continue
		}
		line := ""
		paragraphs[i] = ""
		for _, word := range strings.Fields(paragraph) {
			if line != "" && len(line)+1+len(word) > width {
				paragraphs[i] += line + "\n"
				line = ""
			}
			line = strings.TrimSpace(line + " " + word)
		}
		paragraphs[i] += line
	}
	return strings.Join(paragraphs, "\n\n")
}

// manual is the manual page, in roff(7), as man(7) describes it: the help of the program and of
// each command, without an indent, which would make their lines longer than they are.
func (t Table) manual() string {
	root := t.root()
	var page strings.Builder
	example := func(text string) { fmt.Fprintf(&page, ".EX\n.in 0\n%s\n.EE\n", roff(strings.TrimSpace(text))) }
	program, about := roff(t.Program), roff(strings.TrimSuffix(strings.TrimPrefix(t.About, t.Program+" is "), "."))
	fmt.Fprintf(&page, ".TH \"%s\" \"8\" \"\" \"%s %s\" \"\"\n", strings.ToUpper(program), program, roff(t.Version))
	fmt.Fprintf(&page, ".SH NAME\n%s \\- %s\n.SH DESCRIPTION\n", program, about)
	example(helpOf(root))
	page.WriteString(".SH COMMANDS\n")
	for _, c := range root.Commands() {
		fmt.Fprintf(&page, ".SS \"%s\"\n", roff(c.Name()))
		example(helpOf(c))
	}
	return page.String()
}

// roff escapes a text: backslashes, dashes, which would become hyphens, and what a line begins with
// if that is a request.
func roff(text string) string {
	lines := strings.Split(strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(text), "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			lines[i] = `\&` + line
		}
	}
	return strings.Join(lines, "\n")
}
