package svg

import (
	"fmt"
	"html"
	"strings"
)

const (
	strong = "#1a56c4" // what the plot is about
	weak   = "#9aa3b0" // what it is compared with
	dark   = "#1f2430"
	faint  = "#d9dde3"
)

// canvas is a picture under construction.
type canvas struct {
	text          strings.Builder
	width, height float64
}

// newCanvas begins a picture with a title, and with a background of its own, for pages
// that are dark.
func newCanvas(width, height float64, title, subtitle string) *canvas {
	c := &canvas{width: width, height: height}
	c.add(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %g %g" width="%g" height="%g" font-family="system-ui, 'DejaVu Sans', sans-serif" role="img">`, width, height, width, height)
	c.add(`<title>%s</title>`, html.EscapeString(title))
	c.add(`<rect width="%g" height="%g" rx="6" fill="#ffffff" stroke="%s"/>`, width, height, faint)
	c.label(16, 28, "start", 16, dark, "bold", title)
	c.label(16, 47, "start", 12, "#5b6472", "normal", subtitle)
	return c
}

func (c *canvas) add(format string, args ...any) { fmt.Fprintf(&c.text, format+"\n", args...) }

func (c *canvas) label(x, y float64, anchor string, size int, colour, weight, text string) {
	c.add(`<text x="%.1f" y="%.1f" text-anchor="%s" font-size="%d" fill="%s" font-weight="%s">%s</text>`, x, y, anchor, size, colour, weight, html.EscapeString(text))
}

func (c *canvas) line(x1, y1, x2, y2 float64, colour string, width float64) {
	c.add(`<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="%s" stroke-width="%g"/>`, x1, y1, x2, y2, colour, width)
}

func (c *canvas) String() string { return c.text.String() + "</svg>\n" }

func colourOf(isStrong bool) string {
	if isStrong {
		return strong
	}
	return weak
}

// number is a figure with as many digits as somebody reads.
func number(v float64) string {
	switch {
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}
