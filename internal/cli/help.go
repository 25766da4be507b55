package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/pflag"
)

// width is how many columns the help has.
const width = 80

// Help is the help of the program.
func (t Table) Help() string {
	var text strings.Builder
	fmt.Fprintf(&text, "%s\n", wrap(t.About, 0))
	if len(t.CallOuts) > 0 {
		text.WriteString("\nCall-outs, which the kubelet executes; each prints one JSON object:\n")
		list(&text, t.CallOuts)
		text.WriteString("\nCommands, for people:\n")
	} else {
		text.WriteString("\nCommands:\n")
	}
	list(&text, t.All())
	fmt.Fprintf(&text, "\n%s\n", wrap("COMMAND --help has the flags of a command, and an example. "+t.Note, 0))
	return text.String()
}

// list writes a line for each command, or more.
func list(text *strings.Builder, all []Command) {
	const column = 22
	for _, c := range all {
		what := "  " + strings.TrimSpace(c.Name+" "+c.Args)
		if len(what) >= column {
			text.WriteString(what + "\n")
			what = ""
		}
		fmt.Fprintf(text, "%-*s%s\n", column, what, wrap(c.Help, column))
	}
}

// helpOf is the help of a command.
func (t Table) helpOf(c Command) string {
	set, _ := c.flags()
	var text strings.Builder
	fmt.Fprintf(&text, "Usage: %s\n\n%s\n", t.usage(c, set), wrap(sentence(c.Help), 0))
	for _, paragraph := range paragraphs(c.More) {
		fmt.Fprintf(&text, "\n%s\n", wrap(paragraph, 0))
	}
	if c.Example != "" {
		fmt.Fprintf(&text, "\nExample:\n  %s %s\n", t.Program, c.Example)
	}
	if set.HasFlags() {
		fmt.Fprintf(&text, "\nFlags:\n%s", set.FlagUsagesWrapped(width))
	}
	return text.String()
}

// usage is the form of a command's line.
func (t Table) usage(c Command, set *pflag.FlagSet) string {
	words := []string{t.Program, c.Name}
	if set.HasFlags() {
		words = append(words, "[FLAG...]")
	}
	return strings.TrimSpace(strings.Join(append(words, c.Args), " "))
}

// sentence makes a sentence of a command's help.
func sentence(help string) string {
	if help == "" {
		return ""
	}
	return strings.ToUpper(help[:1]) + help[1:] + "."
}

// paragraphs are those of a text, without empty lines.
func paragraphs(text string) []string {
	if text = strings.TrimRight(text, "\n"); text == "" {
		return nil
	}
	return strings.Split(text, "\n\n")
}

// wrap breaks a paragraph into lines, of which all but the first are indented. It leaves one as it
// is that begins with a blank.
func wrap(paragraph string, indent int) string {
	if strings.HasPrefix(paragraph, " ") {
		return paragraph
	}
	var text strings.Builder
	column := indent
	for i, word := range strings.Fields(paragraph) {
		switch {
		case i == 0:
		case column+1+len(word) > width:
			text.WriteString("\n" + strings.Repeat(" ", indent))
			column = indent
		default:
			text.WriteByte(' ')
			column++
		}
		text.WriteString(word)
		column += len(word)
	}
	return text.String()
}

// manual is the manual page, in roff(7), as man(7) describes it: the help of the program and of
// each command, without an indent, which would make their lines longer than they are.
func (t Table) manual() string {
	var page strings.Builder
	example := func(text string) { fmt.Fprintf(&page, ".EX\n.in 0\n%s\n.EE\n", roff(strings.TrimSpace(text))) }
	program, about := roff(t.Program), roff(strings.TrimSuffix(strings.TrimPrefix(t.About, t.Program+" is "), "."))
	fmt.Fprintf(&page, ".TH \"%s\" \"8\" \"\" \"%s %s\" \"\"\n", strings.ToUpper(program), program, roff(t.Version))
	fmt.Fprintf(&page, ".SH NAME\n%s \\- %s\n.SH DESCRIPTION\n", program, about)
	example(t.Help())
	page.WriteString(".SH COMMANDS\n")
	for _, c := range t.All() {
		fmt.Fprintf(&page, ".SS \"%s\"\n", roff(c.Name))
		example(t.helpOf(c))
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
