package cli

import (
	"fmt"
	"slices"
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
	fmt.Fprintf(&text, "\n%s\n", wrap(t.note(), 0))
	return text.String()
}

// note is the last paragraph.
func (t Table) note() string {
	return strings.TrimSpace("COMMAND --help has the flags of a command, and an example. " + t.Note)
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

// manual is the manual page, in roff(7), as man(7) describes it.
func (t Table) manual() string {
	var page strings.Builder
	line := func(macro string, words ...string) {
		page.WriteString("." + macro)
		for _, word := range words {
			fmt.Fprintf(&page, ` "%s"`, strings.ReplaceAll(roff(word), `"`, `\(dq`))
		}
		page.WriteByte('\n')
	}
	text := func(paragraph string) {
		if strings.HasPrefix(paragraph, " ") {
			line("EX")
			fmt.Fprintf(&page, "%s\n", roff(paragraph))
			line("EE")
			return
		}
		fmt.Fprintf(&page, "%s\n", roff(paragraph))
	}
	about := strings.TrimSuffix(strings.TrimPrefix(t.About, t.Program+" is "), ".")
	line("TH", strings.ToUpper(t.Program), "8", "", t.Program+" "+t.Version, "")
	line("SH", "NAME")
	text(t.Program + " - " + about)
	line("SH", "SYNOPSIS")
	line("B", t.Program)
	text("COMMAND [FLAG...] [ARGUMENT...]")
	if len(t.CallOuts) > 0 {
		line("SH", "CALL-OUTS")
		text("The kubelet executes them. Each prints one JSON object.")
		for _, c := range t.CallOuts {
			line("TP")
			line("B", strings.TrimSpace(c.Name+" "+c.Args))
			text(sentence(c.Help))
		}
	}
	line("SH", "COMMANDS")
	for _, c := range t.All() {
		set, _ := c.flags()
		line("SS", c.Name)
		line("B", t.usage(c, set))
		line("PP")
		text(sentence(c.Help))
		for _, paragraph := range paragraphs(c.More) {
			line("PP")
			text(paragraph)
		}
		set.VisitAll(func(f *pflag.Flag) {
			value, usage := pflag.UnquoteUsage(f)
			name := "--" + f.Name
			if f.NoOptDefVal != "" && value != "" {
				value = "[=" + value + "]"
			} else if value != "" {
				value = " " + value
			}
			if f.Shorthand != "" {
				name = "-" + f.Shorthand + ", " + name
			}
			line("TP")
			line("B", name+value)
			if !slices.Contains([]string{"", "false", "0", "[]"}, f.DefValue) {
				usage += "; by default " + f.DefValue
			}
			text(sentence(usage))
		})
		if c.Example != "" {
			line("PP")
			text("Example:")
			line("PP")
			text("    " + t.Program + " " + c.Example)
		}
	}
	line("SH", "NOTES")
	text(t.note())
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
