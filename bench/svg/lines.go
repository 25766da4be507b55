package svg

import (
	"math"
	"slices"
	"strconv"
)

// A Line is a figure at each of the steps. Where it has none, it is not a number.
type Line struct {
	Name   string
	Values []float64
	Strong bool
}

// Lines are figures over steps. Both directions are logarithmic: the steps are drawn at
// equal distances, and a figure that is ten times another, so much higher.
type Lines struct {
	Title, Subtitle, Unit string
	Steps                 []string
	Lines                 []Line
}

// SVG draws them.
func (p Lines) SVG() string {
	const left, right, top, bottom, width, height = 90.0, 230.0, 70.0, 40.0, 760.0, 380.0
	least, most := math.Inf(1), 0.0
	for _, l := range p.Lines {
		for _, v := range l.Values {
			if !math.IsNaN(v) {
				least, most = min(least, v), max(most, v)
			}
		}
	}
	from, to := math.Floor(math.Log10(least)), math.Ceil(math.Log10(most))
	c := newCanvas(width, height, p.Title, p.Subtitle)
	x := func(step int) float64 {
		return left + 20 + float64(step)*(width-left-right-20)/float64(max(len(p.Steps)-1, 1))
	}
	y := func(v float64) float64 {
		return height - bottom - (math.Log10(v)-from)/(to-from)*(height-top-bottom)
	}
	for power := from; power <= to; power++ {
		v := math.Pow(10, power)
		c.line(left, y(v), width-right, y(v), faint, 1)
		c.label(left-8, y(v)+4, "end", 12, "#5b6472", "normal", strconv.FormatFloat(v, 'f', -1, 64)+" "+p.Unit)
	}
	for i, step := range p.Steps {
		c.label(x(i), height-bottom+22, "middle", 12, "#5b6472", "normal", step)
	}
	p.draw(c, x, y, width-right+10)
	return c.String()
}

// draw draws the lines, and their names where they end, as high as there is room.
func (p Lines) draw(c *canvas, x func(int) float64, y func(float64) float64, names float64) {
	type end struct {
		at   float64
		line Line
		last float64
	}
	var ends []end
	for _, l := range p.Lines {
		colour, before := colourOf(l.Strong), -1
		for i, v := range l.Values {
			if math.IsNaN(v) {
				continue
			}
			c.add(`<circle cx="%.1f" cy="%.1f" r="3.5" fill="%s"/>`, x(i), y(v), colour)
			if before >= 0 {
				c.line(x(before), y(l.Values[before]), x(i), y(v), colour, 2.5)
			}
			before = i
		}
		ends = append(ends, end{y(l.Values[before]), l, l.Values[before]})
	}
	slices.SortFunc(ends, func(a, b end) int { return int(math.Copysign(1, a.at-b.at)) })
	lowest := 0.0
	for _, e := range ends {
		lowest = max(e.at, lowest+17)
		colour := dark
		if e.line.Strong {
			colour = strong
		}
		c.label(names, lowest+4, "start", 13, colour, "normal", e.line.Name+": "+number(e.last)+" "+p.Unit)
	}
}
