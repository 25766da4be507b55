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
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// Text is a page in the text format of Prometheus, version 0.0.4
// (prometheus.io/docs/instrumenting/exposition_formats).
type Text struct {
	page   strings.Builder
	driver string
	family string
}

// prefix is of all names, whatever the driver: one query, and one alert, is for all drivers.
const prefix = "fuse_driver_"

// NewText returns a page whose samples have the label driver, the name of a program.
func NewText(program string) *Text { return &Text{driver: program} }

// ContentType is that of the page.
const ContentType = "text/plain; version=0.0.4; charset=utf-8"

// Family begins the samples of a name. kind is counter, gauge or histogram.
func (t *Text) Family(name, kind, help string) *Text {
	t.family = prefix + name
	fmt.Fprintf(&t.page, "# HELP %s %s\n# TYPE %[1]s %[3]s\n", t.family, help, kind)
	return t
}

// Sample writes a sample of the family, with labels: names and values in turn.
func (t *Text) Sample(value float64, labels ...string) { t.suffixed("", value, labels...) }

func (t *Text) suffixed(suffix string, value float64, labels ...string) {
	fmt.Fprintf(&t.page, `%s%s{driver="%s"`, t.family, suffix, escaped(t.driver))
	for i := 0; i < len(labels); i += 2 {
		fmt.Fprintf(&t.page, `,%s="%s"`, labels[i], escaped(labels[i+1]))
	}
	fmt.Fprintf(&t.page, "} %s\n", number(value))
}

// histogram writes the samples of a family of durations, with labels: how many are in each class,
// of which the last has no bound, and their sum in seconds.
func (t *Text) histogram(bounds []time.Duration, classes []uint64, sum float64, labels ...string) {
	count := 0.0 // which has no end to wrap around at
	for i, n := range classes {
		count += float64(n)
		bound := "+Inf"
		if i < len(bounds) {
			bound = number(bounds[i].Seconds())
		}
		t.suffixed("_bucket", count, slices.Concat(labels, []string{"le", bound})...)
	}
	t.suffixed("_sum", sum, labels...)
	t.suffixed("_count", count, labels...)
}

// String returns the page.
func (t *Text) String() string { return t.page.String() }

func number(value float64) string { return strconv.FormatFloat(value, 'g', -1, 64) }

func escaped(value string) string { return escape.Replace(strings.ToValidUTF8(value, "\uFFFD")) }

// SnakeCase is a word as values of labels are written: notMounted is not_mounted, and so is "Not
// mounted".
func SnakeCase(word string) string {
	var snake strings.Builder
	for i, r := range strings.ReplaceAll(word, " ", "_") {
		if unicode.IsUpper(r) && i > 0 {
			snake.WriteByte('_')
		}
		snake.WriteRune(unicode.ToLower(r))
	}
	return snake.String()
}

var escape = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)
