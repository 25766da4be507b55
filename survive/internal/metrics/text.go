// Package metrics tells a monitoring system about the driver: Calls counts
// call-outs, whose processes live for milliseconds, Text writes what Prometheus
// reads, and Serve answers its requests.
//
// The installer's watch uses it, not the daemon. It does without net/http: linking it would
// make each start of the binary, and so of each pod, half a millisecond longer, of 2.5 (a
// third for package initialisation, the rest for a binary of 7.6 MB in place of 4.6).
package metrics

import (
	"fmt"
	"strconv"
	"strings"
)

// Text is a page in the text format of Prometheus, version 0.0.4
// (prometheus.io/docs/instrumenting/exposition_formats).
type Text struct {
	page   strings.Builder
	prefix string // of all names
	family string
}

// NewText returns a page whose names begin with the name of a program.
func NewText(program string) *Text {
	return &Text{prefix: strings.ReplaceAll(program, "-", "_") + "_"}
}

// ContentType is that of the page.
const ContentType = "text/plain; version=0.0.4; charset=utf-8"

// Family begins the samples of a name. kind is counter, gauge or histogram.
func (t *Text) Family(name, kind, help string) *Text {
	t.family = t.prefix + name
	fmt.Fprintf(&t.page, "# HELP %s %s\n# TYPE %[1]s %[3]s\n", t.family, help, kind)
	return t
}

// Sample writes a sample of the family, with labels: names and values in turn.
func (t *Text) Sample(value float64, labels ...string) { t.suffixed("", value, labels...) }

func (t *Text) suffixed(suffix string, value float64, labels ...string) {
	t.page.WriteString(t.family + suffix)
	for i := 0; i < len(labels); i += 2 {
		opening := ","
		if i == 0 {
			opening = "{"
		}
		fmt.Fprintf(&t.page, `%s%s="%s"`, opening, labels[i], escape.Replace(strings.ToValidUTF8(labels[i+1], "\uFFFD")))
	}
	if len(labels) > 0 {
		t.page.WriteByte('}')
	}
	fmt.Fprintf(&t.page, " %s\n", number(value))
}

// String returns the page.
func (t *Text) String() string { return t.page.String() }

func number(value float64) string { return strconv.FormatFloat(value, 'g', -1, 64) }

var escape = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)
