package svg

import (
	"encoding/xml"
	"io"
	"math"
	"slices"
	"strings"
	"testing"
	"time"
)

// wellFormed returns all text of a picture.
func wellFormed(t *testing.T, picture string) (text string) {
	t.Helper()
	for decoder := xml.NewDecoder(strings.NewReader(picture)); ; {
		token, err := decoder.Token()
		if err == io.EOF {
			break
		} else if err != nil {
			t.Fatalf("%v in %s", err, picture)
		}
		if data, ok := token.(xml.CharData); ok {
			text += string(data)
		}
	}
	if strings.Contains(picture, "NaN") || strings.Contains(picture, "Inf") {
		t.Errorf("coordinates that are no numbers in %s", picture)
	}
	return text
}

func TestEveryBarHasItsNameAndFigure(t *testing.T) {
	text := wellFormed(t, Bars{Title: "a < b", Unit: "µs", Bars: []Bar{
		{Label: "one & only", Value: 12, Low: 11, Top: 14}, {Label: "other", Value: 250, Low: 250, Top: 250},
	}}.SVG())
	for _, want := range []string{"a < b", "one & only", "12.0 µs", "other", "250 µs"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in %q", want, text)
		}
	}
}

func TestEveryLineHasItsNameAndLastFigure(t *testing.T) {
	text := wellFormed(t, Lines{Title: "t", Unit: "ms", Steps: []string{"0", "100"}, Lines: []Line{
		{Name: "whole", Values: []float64{1, 20}}, {Name: "short", Values: []float64{3, math.NaN()}},
	}}.SVG())
	for _, want := range []string{"whole: 20.0 ms", "short: 3.00 ms", "100"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in %q", want, text)
		}
	}
}

func TestACourse(t *testing.T) {
	curve := func(label string, values ...float64) Curve {
		c := Curve{Label: label}
		for i, v := range values {
			c.Points = append(c.Points, Point{time.Duration(i) * time.Minute, v})
		}
		return c
	}
	for name, c := range map[string]struct {
		panel  Panel
		length time.Duration
		want   []string
	}{
		"linear":               {Panel{Title: "KiB", Curves: []Curve{curve("a < b", 3000, 3100), curve("other", 12000, 12000)}}, time.Minute, []string{"KiB", "a < b", "other", "10000", "0 min", "1 min"}},
		"logarithmic":          {Panel{Title: "ms", Logarithmic: true, Curves: []Curve{curve("read", 0.06, 0.2, 0, 40)}}, time.Hour, []string{"0.01", "0.1", "1", "10", "100", "30 min", "1 h 00"}},
		"one figure":           {Panel{Title: "ms", Logarithmic: true, Curves: []Curve{curve("one", 1, 1)}}, time.Minute, []string{"one"}},
		"nothing":              {Panel{Title: "empty"}, time.Minute, []string{"empty"}},
		"nothing but zero":     {Panel{Title: "zero", Curves: []Curve{curve("none", 0, 0)}}, time.Minute, []string{"none"}},
		"more than have room":  {Panel{Title: "many", Curves: slices.Repeat([]Curve{curve("same", 1, 2)}, 9)}, 10 * time.Minute, []string{"same", "10 min"}},
		"what is not positive": {Panel{Title: "log", Logarithmic: true, Curves: []Curve{curve("none", 0, -1), curve("some", 2)}}, time.Minute, []string{"some"}},
	} {
		text := wellFormed(t, Course{Title: "t", Above: []string{"one & two", "three"}, Below: []string{"four"}, Panels: []Panel{c.panel, c.panel}, Length: c.length}.SVG())
		for _, want := range append(c.want, "one & two", "three", "four") {
			if !strings.Contains(text, want) {
				t.Errorf("%s: %q is missing in %q", name, want, text)
			}
		}
	}
}
