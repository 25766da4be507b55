package cli

import (
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// A shell asks the program itself what a word can be: `PROGRAM completion SHELL -- WORD...`, where
// the words are the command line up to the cursor. So its script knows no command.

// scripts are what each shell reads. Where the program names no word, they complete names of files.
var scripts = map[string]string{
	"bash": `# Completion of bash, by "PROGRAM completion bash".
FUNCTION() {
	mapfile -t COMPREPLY < <("$1" completion bash -- "${COMP_WORDS[@]:0:COMP_CWORD+1}" 2>/dev/null)
}
complete -o default -F FUNCTION PROGRAM
`,
	"zsh": `#compdef PROGRAM
# Completion of zsh, by "PROGRAM completion zsh": a file _PROGRAM of a directory of $fpath, or to source.
FUNCTION() {
	local -a lines=(${(f)"$(PROGRAM completion zsh -- "${(@)words[1,CURRENT]}" 2>/dev/null)"})
	(( $#lines )) && _describe word lines || _files
}
if [[ $funcstack[1] = FUNCTION ]]; then
	FUNCTION "$@"
else
	compdef FUNCTION PROGRAM
fi
`,
	"fish": `# Completion of fish, by "PROGRAM completion fish".
function FUNCTION
	set -g FUNCTION_lines (PROGRAM completion fish -- (commandline -opc) (commandline -ct) 2>/dev/null)
	test -n "$FUNCTION_lines"
end
complete -c PROGRAM -f -n FUNCTION -a '$FUNCTION_lines'
`,
}

func (t Table) completion(*pflag.FlagSet) func([]string) error {
	return func(args []string) error {
		text := strings.NewReplacer("PROGRAM", t.Program, "FUNCTION", "_"+strings.ReplaceAll(t.Program, "-", "_")).Replace(scripts[args[0]])
		if len(args) > 2 {
			text = ""
			for _, w := range t.complete(args[2:]) {
				text += w.line(args[0]) + "\n"
			}
		}
		_, err := os.Stdout.WriteString(text)
		return err
	}
}

// word is what a word of a command line can be.
type word struct{ text, help string }

// line tells a shell of the word.
func (w word) line(shell string) string {
	w.help, _, _ = strings.Cut(w.help, "; ") // it stands beside others
	switch {
	case shell == "zsh":
		return strings.TrimSuffix(strings.ReplaceAll(w.text, ":", `\:`)+":"+w.help, ":")
	case shell == "fish":
		return w.text + "\t" + w.help
	}
	return w.text
}

// complete returns what the last word can be, after those before it; none: anything, such as a name
// of a file.
func (t Table) complete(words []string) (all []word) {
	last := len(words) - 1
	if last == 0 {
		all = t.names()
	} else if c, is := t.find(words[0]); is && !slices.Contains(words[:last], "--") {
		all = t.argument(c, words[1:]) // what follows -- is another program's
	}
	return slices.DeleteFunc(all, func(w word) bool { return !strings.HasPrefix(w.text, words[last]) })
}

// argument is complete for the arguments of a command.
func (t Table) argument(c Command, words []string) (all []word) {
	set, _ := c.flags()
	set.BoolP("help", "h", false, "print what the command does")
	last := len(words) - 1
	if last > 0 {
		if f := flagOf(set, words[last-1]); f != nil && f.NoOptDefVal == "" { // it takes a value
			if v, is := f.Value.(interface{ choices() []string }); is {
				return wordsOf(v.choices())
			}
			return nil
		}
	}
	switch {
	case strings.HasPrefix(words[last], "-"):
		set.VisitAll(func(f *pflag.Flag) {
			_, help := pflag.UnquoteUsage(f)
			if f.Shorthand != "" {
				all = append(all, word{"-" + f.Shorthand, help})
			}
			all = append(all, word{"--" + f.Name, help})
		})
		return all
	case last > 0:
		return nil
	case c.Name == "help":
		return t.names()
	}
	return wordsOf(c.Choices)
}

// flagOf is the flag that a word names; nil: none.
func flagOf(set *pflag.FlagSet, word string) *pflag.Flag {
	if name, is := strings.CutPrefix(word, "--"); is {
		return set.Lookup(name)
	} else if name, is := strings.CutPrefix(word, "-"); is && len(name) == 1 {
		return set.ShorthandLookup(name)
	}
	return nil
}

func wordsOf(texts []string) (all []word) {
	for _, text := range texts {
		all = append(all, word{text: text})
	}
	return all
}

// names are those of the commands.
func (t Table) names() (all []word) {
	for _, c := range t.All() {
		all = append(all, word{c.Name, c.Help})
	}
	return all
}
