package cli

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"
)

var update = flag.Bool("update", false, "write what is expected")

// sample is a table that has everything.
func sample() Table {
	return Table{
		Program: "shop-keeper", Version: "1.2.3", About: "shop-keeper is a program that keeps a shop.",
		CallOuts: []Command{{Name: "init", Help: "begin"}, {Name: "mount", Args: "DIR JSON", Help: "mount a volume on DIR"}},
		Commands: []Command{
			{
				Name: "sell", Args: "THING [PRICE]", Example: "sell --to o'neill bread",
				Help: "sell a thing (there's no credit); the price is what the market says, but for those who bring their own bag",
				More: "A first paragraph.\n\n    as it is \\ here\n\n.not a request, but a sentence.",
				Prepare: func(set *pflag.FlagSet) func([]string) error {
					set.String("to", "nobody", "the `CUSTOMER` [a name: any] who isn't here; or nobody")
					set.BoolP("quiet", "q", false, "say nothing")
					set.String("wrap", "", "wrap it in `PAPER`")
					set.Lookup("wrap").NoOptDefVal = "news"
					return func(args []string) error {
						if len(args) == 2 && args[1] == "free" {
							return Usage(errors.New("nothing is free"))
						}
						return fmt.Errorf("sold %q", args)
					}
				},
			},
			{Name: "look", Args: "-- PLACE [THING...]", Help: "look at things", Prepare: func(set *pflag.FlagSet) func([]string) error {
				set.SetInterspersed(false)
				OutputFlag(set, "table")
				return func(args []string) error { return fmt.Errorf("looked at %q", args) }
			}},
			{Name: "close", Help: "close the shop", Example: "close", Prepare: func(*pflag.FlagSet) func([]string) error {
				return func([]string) error { return Status(7) }
			}},
		},
		Note: "The shop is open.",
	}
}

// run executes a command, and returns what it has printed.
func run(t *testing.T, name string, args ...string) (stdout string, err error) {
	t.Helper()
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	before := os.Stdout
	os.Stdout = write
	printed := make(chan string)
	go func() { text, _ := io.ReadAll(read); printed <- string(text) }()
	err = sample().Run(name, args)
	os.Stdout = before
	write.Close()
	return <-printed, err
}

func TestOneTableGivesAllPages(t *testing.T) {
	for file, args := range map[string]string{
		"help.txt": "help", "sell.txt": "sell --help", "look.txt": "help look", "mount.txt": "help mount", "man.8": "help --man",
		"version.json": "version -o json",
	} {
		words := strings.Fields(args)
		got, err := run(t, words[0], words[1:]...)
		if err != nil {
			t.Errorf("%s: %v", args, err)
		}
		path := filepath.Join("testdata", file)
		if *update {
			if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if want, err := os.ReadFile(path); err != nil || got != string(want) {
			t.Errorf("%s is not %s (%v; -update writes it):\n%s", args, path, err, got)
		}
	}
}

func TestArguments(t *testing.T) {
	for line, want := range map[string]string{
		"sell bread":               `sold ["bread"]`,
		"sell bread 3 -q":          `sold ["bread" "3"]`,
		"sell":                     "sell needs THING; see shop-keeper sell --help",
		"sell bread 3 4":           `sell takes no argument "4"; see shop-keeper sell --help`,
		"sell bread free":          "nothing is free; see shop-keeper sell --help",
		"sell --loud":              "unknown flag: --loud; see shop-keeper sell --help",
		"look":                     "look needs PLACE; see shop-keeper look --help",
		"look -- here -q there --": `looked at ["here" "-q" "there" "--"]`,
		"look -o yaml -- here":     `invalid argument "yaml" for "-o, --output" flag: it is neither table nor json; see shop-keeper look --help`,
		"close":                    "exit status 7",
		"close now":                `close takes no argument "now"; see shop-keeper close --help`,
		"completion":               "completion needs a shell; see shop-keeper completion --help",
		"completion tcsh":          `unknown command "tcsh" for "shop-keeper completion"; see shop-keeper completion --help`,
		"completion bash now":      `unknown command "now" for "shop-keeper completion bash"; see shop-keeper completion bash --help`,
		"help sel":                 `unknown command "sel"; see shop-keeper help --help`,
		"mont":                     `unknown command "mont"; see shop-keeper help`,
	} {
		words := strings.Fields(line)
		_, err := run(t, words[0], words[1:]...)
		if err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", line, err, want)
		}
		if _, usage := errors.AsType[UsageError](err); usage != strings.Contains(want, "; see ") {
			t.Errorf("%s: %v is an error of the command line: %v", line, err, usage)
		}
	}
}

// What could not be written is no success, and not the fault of the command line.
func TestStdoutIsFull(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	defer func(stdout *os.File) { os.Stdout = stdout }(os.Stdout)
	os.Stdout = full
	for _, words := range [][]string{
		{"help"}, {"help", "sell"}, {"help", "--man"}, {"version"},
		{"completion", "bash"}, {"completion", "zsh"}, {"completion", "fish"},
	} {
		err := sample().Run(words[0], words[1:])
		if _, usage := errors.AsType[UsageError](err); usage || !errors.Is(err, unix.ENOSPC) {
			t.Errorf("%q: %v", words, err)
		}
	}
}

func TestWordsAreCompleted(t *testing.T) {
	const files, noFiles = ":0", ":4"
	for line, want := range map[string]string{
		"":                "sell look close completion version help " + noFiles,
		"c":               "close completion " + noFiles,
		"sell --":         "--help --quiet --to --wrap " + noFiles,
		"sell ":           files,
		"sell --to ":      files,
		"sell --wrap --t": "--to " + noFiles,
		"sell bread --t":  "--to " + noFiles,
		"look -o ":        "table json " + noFiles,
		"look --output ":  "table json " + noFiles,
		"look -- here -":  files, // another program's
		"close ":          noFiles,
		"completion b":    "bash " + noFiles,
		"help cl":         "close " + noFiles,
	} {
		words := strings.Split(line, " ")
		got, err := run(t, "__complete", words...)
		var all []string
		for line := range strings.Lines(got) {
			word, _, _ := strings.Cut(strings.TrimSpace(line), "\t")
			all = append(all, word)
		}
		if text := strings.Join(all, " "); err != nil || text != want {
			t.Errorf("%q: %v, %q, want %q", line, err, text, want)
		}
	}
	for _, shell := range []string{"bash", "zsh", "fish"} {
		if script, err := run(t, "completion", shell); err != nil || !strings.Contains(script, "__complete") {
			t.Errorf("%s: %v, %q", shell, err, script)
		}
	}
}

// groff warns of what it does not understand.
func TestTheManualIsOne(t *testing.T) {
	groff, err := exec.LookPath("groff")
	if err != nil {
		t.Skip(err)
	}
	command := exec.Command(groff, "-man", "-ww", "-Tutf8", "-P-cbou")
	command.Stdin = strings.NewReader(sample().manual())
	var warnings strings.Builder
	command.Stderr = &warnings
	page, err := command.Output()
	text := strings.Join(strings.Fields(string(page)), " ")
	for _, part := range []string{
		"shop-keeper - a program that keeps a shop", "shop-keeper sell [flags] THING [PRICE]", "-q, --quiet say nothing", `(default "nobody")`,
		`as it is \ here .not a request, but a sentence.`, "shop-keeper sell --to o'neill bread", "mount DIR JSON",
	} {
		if !strings.Contains(text, part) {
			t.Errorf("it lacks %q", part)
		}
	}
	if err != nil || warnings.Len() > 0 {
		t.Errorf("%v: %s", err, &warnings)
	}
	if t.Failed() {
		t.Logf("%s", page)
	}
}
