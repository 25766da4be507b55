package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/pflag"
)

// option is a flag, for the shells.
type option struct {
	long, short string
	help        string
	value       string   // what it takes; "": nothing
	choices     []string // all values that there are; nil: any
}

// options are the flags of a command.
func (c Command) options() (all []option) {
	set, _ := c.flags()
	set.VisitAll(func(f *pflag.Flag) {
		value, help := pflag.UnquoteUsage(f)
		o := option{long: f.Name, short: f.Shorthand, help: brief(help), value: value}
		if f.NoOptDefVal != "" {
			o.value = "" // none, or after an equals sign
		}
		if v, ok := f.Value.(interface{ choices() []string }); ok {
			o.choices = v.choices()
		}
		all = append(all, o)
	})
	return append(all, option{long: "help", short: "h", help: "print what the command does"})
}

// names are all names of a flag.
func (o option) names() []string {
	if o.short == "" {
		return []string{"--" + o.long}
	}
	return []string{"-" + o.short, "--" + o.long}
}

// brief is the first part of a text, for a line beside others.
func brief(help string) string {
	help, _, _ = strings.Cut(help, "; ")
	return help
}

// choices are all values of a command's argument.
func (t Table) choices(c Command) []string {
	if c.Name == "help" {
		return t.names()
	}
	return c.Choices
}

func (t Table) names() (names []string) {
	for _, c := range t.All() {
		names = append(names, c.Name)
	}
	return names
}

// function is the name of the shells' function.
func (t Table) function() string { return "_" + strings.ReplaceAll(t.Program, "-", "_") }

// bash is the completion of bash. Where it has no words, bash completes names of files.
func (t Table) bash() string {
	var text strings.Builder
	fmt.Fprintf(&text, "# Completion of bash, by `%s completion bash`.\n", t.Program)
	fmt.Fprintf(&text, "%s() {\n\tlocal words=\n\t[[ \" ${COMP_WORDS[*]:1:COMP_CWORD-1} \" = *' -- '* ]] && return\n\tcase $COMP_CWORD,${COMP_WORDS[1]},$3,$2 in\n\t1,*) words='%s' ;;\n", t.function(), strings.Join(t.names(), " "))
	for _, c := range t.All() {
		var names []string
		for _, o := range c.options() {
			names = append(names, o.names()...)
			for _, name := range o.names() {
				if o.choices != nil {
					fmt.Fprintf(&text, "\t*,%s,%s,*) words='%s' ;;\n", c.Name, name, strings.Join(o.choices, " "))
				} else if o.value != "" {
					fmt.Fprintf(&text, "\t*,%s,%s,*) ;;\n", c.Name, name)
				}
			}
		}
		fmt.Fprintf(&text, "\t*,%s,*,-*) words='%s' ;;\n", c.Name, strings.Join(names, " "))
		if choices := t.choices(c); choices != nil {
			fmt.Fprintf(&text, "\t2,%s,*) words='%s' ;;\n", c.Name, strings.Join(choices, " "))
		}
	}
	fmt.Fprintf(&text, "\tesac\n\tmapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$2\")\n}\ncomplete -o default -F %s %s\n", t.function(), t.Program)
	return text.String()
}

// zsh is the completion of zsh: a file _PROGRAM of a directory of $fpath, or something to source.
func (t Table) zsh() string {
	// _arguments and _describe end a name at a colon, and an explanation at a bracket.
	quote := func(parts ...string) string {
		text := strings.Join(parts, "")
		return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
	}
	plain := strings.NewReplacer(`\`, `\\`, ":", `\:`, "[", `\[`, "]", `\]`).Replace
	action := func(choices []string) string {
		if choices == nil {
			return "_files"
		}
		return "(" + strings.Join(choices, " ") + ")"
	}
	var text strings.Builder
	fmt.Fprintf(&text, "#compdef %s\n# Completion of zsh, by `%[1]s completion zsh`.\n", t.Program)
	fmt.Fprintf(&text, "%s() {\n\tif (( CURRENT == 2 )); then\n\t\tlocal -a commands=(\n", t.function())
	for _, c := range t.All() {
		fmt.Fprintf(&text, "\t\t\t%s\n", quote(c.Name, ":", brief(c.Help)))
	}
	text.WriteString("\t\t)\n\t\t_describe command commands\n\t\treturn\n\tfi\n\tshift words\n\t(( CURRENT-- ))\n\tcase $words[1] in\n")
	for _, c := range t.All() {
		fmt.Fprintf(&text, "\t%s) _arguments -S", c.Name)
		for _, o := range c.options() {
			for _, name := range o.names() {
				help := "[" + plain(o.help) + "]"
				switch {
				case o.value == "":
					fmt.Fprintf(&text, " \\\n\t\t%s", quote(name, help))
				case strings.HasPrefix(name, "--"):
					fmt.Fprintf(&text, " \\\n\t\t%s", quote(name, "=", help, ":", plain(o.value), ":", action(o.choices)))
				default:
					fmt.Fprintf(&text, " \\\n\t\t%s", quote(name, help, ":", plain(o.value), ":", action(o.choices)))
				}
			}
		}
		if c.Args != "" {
			fmt.Fprintf(&text, " \\\n\t\t%s", quote("*:", plain(c.Args), ":", action(t.choices(c))))
		}
		text.WriteString(" ;;\n")
	}
	fmt.Fprintf(&text, "\tesac\n}\nif [[ $funcstack[1] = %s ]]; then\n\t%[1]s \"$@\"\nelse\n\tcompdef %[1]s %s\nfi\n", t.function(), t.Program)
	return text.String()
}

// fish is the completion of fish.
func (t Table) fish() string {
	quote := func(text string) string {
		return "'" + strings.NewReplacer(`\`, `\\`, "'", `\'`).Replace(text) + "'"
	}
	var text strings.Builder
	fmt.Fprintf(&text, "# Completion of fish, by `%s completion fish`.\n", t.Program)
	for _, c := range t.All() {
		fmt.Fprintf(&text, "complete -c %s -n __fish_use_subcommand -f -a %s -d %s\n", t.Program, c.Name, quote(brief(c.Help)))
	}
	for _, c := range t.All() {
		begin := fmt.Sprintf("complete -c %s -n '__fish_seen_subcommand_from %s'", t.Program, c.Name)
		if c.Args == "" {
			fmt.Fprintf(&text, "%s -f\n", begin)
		}
		if choices := t.choices(c); choices != nil {
			fmt.Fprintf(&text, "%s -f -a %s\n", begin, quote(strings.Join(choices, " ")))
		}
		for _, o := range c.options() {
			text.WriteString(begin)
			if o.short != "" {
				fmt.Fprintf(&text, " -s %s", o.short)
			}
			fmt.Fprintf(&text, " -l %s", o.long)
			if o.choices != nil {
				fmt.Fprintf(&text, " -x -a %s", quote(strings.Join(o.choices, " ")))
			} else if o.value != "" {
				text.WriteString(" -r -F")
			}
			fmt.Fprintf(&text, " -d %s\n", quote(o.help))
		}
	}
	return text.String()
}
