package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"html"
	"io"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"
)

// The picture's measures, in pixels. A letter of a monospaced font is at most so wide.
const (
	size   = 13
	letter = 0.62 * size
	height = 18
	margin = 18
)

// A line appears at least so long after the one before, at most so long, and a paragraph or a
// command so much later.
const (
	least = 150 * time.Millisecond
	most  = time.Second
	pause = 500 * time.Millisecond
)

// said is a line of the demonstration itself, and not of a program that it shows.
var said = regexp.MustCompile(`^[A-Z].*[.:]$`)

// picture draws a terminal with the lines. It has a background of its own, for pages that are
// light or dark. Where nothing moves, all lines are there.
func picture(title string, lines []line) string {
	columns := 0
	for _, l := range lines {
		columns = max(columns, utf8.RuneCountInString(l.text))
	}
	width, tall := int(float64(columns)*letter)+2*margin, len(lines)*height+2*margin
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img" font-family="ui-monospace, 'DejaVu Sans Mono', monospace" font-size="%d">
<title>A recording of %s</title>
<style>
text { fill: #aab4c3; white-space: pre; animation: appear 1ms both }
.said { fill: #ffffff }
.command { fill: #7fb2ff }
.kill { fill: #ff9f7a; font-weight: bold }
@keyframes appear { from { opacity: 0 } to { opacity: 1 } }
@media (prefers-reduced-motion: reduce) { text { animation: none } }
</style>
<rect width="%d" height="%d" rx="8" fill="#1b2130" stroke="#4a5468"/>
`, width, tall, width, tall, size, html.EscapeString(title), width, tall)
	var shown, before time.Duration
	for i, l := range lines {
		shown += min(max(l.at-before, least), most)
		before = l.at
		class := "output"
		switch {
		case l.text == "":
			shown += pause
			continue
		case strings.HasPrefix(l.text, "# kill"):
			class, shown = "kill", shown+pause
		case strings.HasPrefix(l.text, "# "):
			class, shown = "command", shown+pause
		case said.MatchString(l.text):
			class = "said"
		}
		fmt.Fprintf(&b, `<text class="%s" x="%d" y="%d" xml:space="preserve" style="animation-delay: %.2fs">%s</text>`+"\n",
			class, margin, margin+i*height+size, shown.Seconds(), html.EscapeString(l.text))
	}
	return b.String() + "</svg>\n"
}

// textOf returns the lines that a picture shows.
func textOf(picture []byte) (lines []string, err error) {
	decoder := xml.NewDecoder(bytes.NewReader(picture))
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return lines, nil
		} else if err != nil {
			return nil, err
		}
		if start, ok := token.(xml.StartElement); ok && start.Name.Local == "text" {
			var text string
			if err := decoder.DecodeElement(&text, &start); err != nil {
				return nil, err
			}
			lines = append(lines, text)
		}
	}
}
