// Command screencast makes a moving picture of what a command prints, and checks that the command
// still prints it:
//
//	screencast --record PICTURE COMMAND [ARGUMENT]...
//	screencast --check PICTURE COMMAND [ARGUMENT]...
//
// The picture is an SVG, in which each line of the command's output appears after the one before.
// Its text is what the command printed. When lines appear follows the recording, slowed down so
// that they can be read. The check compares words, and neither times nor numbers, which differ
// from run to run and on a busy machine: so the command prints its lines in one order.
package main

import (
	"bufio"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"time"
)

// line is one that the command printed.
type line struct {
	text string
	at   time.Duration // after the command had started
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "screencast:", err)
		os.Exit(1)
	}
}

func run() error {
	record := flag.String("record", "", "write the `PICTURE`")
	check := flag.String("check", "", "compare with the `PICTURE`")
	flag.Parse()
	if flag.NArg() == 0 || (*record == "") == (*check == "") {
		return fmt.Errorf("needs a command, and either --record or --check; see --help")
	}
	lines, err := play(flag.Args())
	if err != nil {
		return err
	}
	if *record != "" {
		return os.WriteFile(*record, []byte(picture(strings.Join(flag.Args(), " "), lines)), 0o644)
	}
	drawn, err := os.ReadFile(*check)
	if err != nil {
		return err
	}
	shown, err := textOf(drawn)
	if err != nil {
		return fmt.Errorf("read %s: %w", *check, err)
	}
	if differs := difference(shown, lines); differs != "" {
		return fmt.Errorf("%s does not show what is printed now: %s; record it anew, with make demo-picture", *check, differs)
	}
	fmt.Printf("screencast: %s shows the %d lines that were printed\n", *check, len(shown))
	return nil
}

// play executes a command, shows what it prints, and returns that.
func play(args []string) (lines []line, err error) {
	command := exec.Command(args[0], args[1:]...)
	command.Stderr = os.Stderr
	output, err := command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	started := time.Now()
	if err := command.Start(); err != nil {
		return nil, err
	}
	for printed := bufio.NewScanner(output); printed.Scan(); {
		fmt.Println(printed.Text())
		lines = append(lines, line{printed.Text(), time.Since(started)})
	}
	if err := command.Wait(); err != nil {
		return nil, fmt.Errorf("%s: %w", strings.Join(args, " "), err)
	}
	return lines, nil
}

var number = regexp.MustCompile(`[0-9]+`)

// words is what is compared of a line: process ids, counts and versions are numbers, and columns
// are as wide as they need to be.
func words(text string) string {
	return number.ReplaceAllString(strings.Join(strings.Fields(text), " "), "N")
}

// difference tells where a picture and what was printed differ first; "": they do not.
func difference(shown []string, printed []line) string {
	var now []string
	for _, l := range printed {
		if l.text != "" { // a picture has no text there
			now = append(now, l.text)
		}
	}
	for i := range max(len(shown), len(now)) {
		var was, is string
		if i < len(shown) {
			was = shown[i]
		}
		if i < len(now) {
			is = now[i]
		}
		if words(was) != words(is) {
			return fmt.Sprintf("line %d is %q, and was %q", i+1, is, was)
		}
	}
	return ""
}
