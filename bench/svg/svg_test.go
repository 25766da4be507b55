package svg

import (
	"encoding/xml"
	"io"
	"math"
	"strings"
	"testing"
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
