package command

import (
	"strconv"
	"strings"
	"unicode"

	"golang.org/x/sys/unix"
)

// onTerminal tells whether a person sees the output of this process.
func onTerminal() bool {
	_, out := unix.IoctlGetTermios(unix.Stdout, unix.TCGETS)
	_, err := unix.IoctlGetTermios(unix.Stderr, unix.TCGETS)
	return out == nil || err == nil
}

// Printable returns text as it is if it is plain, and quoted if it is not.
// limit is the most bytes to show of it, 0 for all.
func Printable(text string, limit int) string {
	if limit > 0 && len(text) > limit {
		text = text[:limit] + "..."
	}
	if quoted := strconv.Quote(text); quoted != `"`+text+`"` {
		return quoted
	}
	return text
}

// lines returns text of many lines without characters that could play tricks on a terminal.
// Pods' authors choose paths and the names of programs, and an attacker may have taken the
// daemon over.
func lines(text string) string {
	return strings.Map(func(r rune) rune {
		if r != '\n' && !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, text)
}

// line is lines for text that must stay one line.
func line(text string) string { return strings.ReplaceAll(lines(text), "\n", "; ") }
