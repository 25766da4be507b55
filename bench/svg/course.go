package svg

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A Point is a figure at a time.
type Point struct {
	At    time.Duration
	Value float64
}

// A Curve is a figure in the course of time. Its label is where it ends, and a faint one is what
// goes with the one before: it has its colour, and needs no label.
type Curve struct {
	Label  string
	Points []Point
	Colour int
	Faint  bool
}

// A Panel has the curves of one unit. From a logarithmic one, figures that are not positive are
// left out.
type Panel struct {
	Title       string
	Curves      []Curve
	Logarithmic bool
}

// Course is what figures were in the course of time: panels, one below the other, with one axis.
// What is above and below them are lines of text.
type Course struct {
	Title          string
	Above, Below   []string
	Panels         []Panel
	Length, Origin time.Duration // the axis begins with the origin
}

// colours are told apart also by those who see no red or green (Okabe and Ito), on white.
var colours = [...]string{strong, "#d55e00", "#009e73", "#cc79a7", "#5b6472", "#b8860b", "#56b4e9", "#8b2e16"}

const (
	courseWidth, courseLeft, courseRight = 860.0, 78.0, 262.0
	panelTop, panelHeight, textHeight    = 30.0, 132.0, 17.0
)

// SVG draws it.
func (p Course) SVG() string {
	above := ""
	if len(p.Above) > 0 {
		above = p.Above[0]
	}
	top := 58 + textHeight*float64(max(0, len(p.Above)-1))
	axis := top + float64(len(p.Panels))*(panelTop+panelHeight)
	c := newCanvas(courseWidth, axis+44+textHeight*float64(len(p.Below)), p.Title, above)
	for i, text := range p.Above[min(1, len(p.Above)):] {
		c.label(16, 47+textHeight*float64(i+1), "start", 12, "#5b6472", "normal", text)
	}
	x := func(at time.Duration) float64 {
		return courseLeft + (at-p.Origin).Seconds()/max(p.Length.Seconds(), 1)*(courseWidth-courseLeft-courseRight)
	}
	for i, panel := range p.Panels {
		panel.draw(c, top+float64(i)*(panelTop+panelHeight)+panelTop, x)
	}
	step := timeStep(p.Length)
	for at := p.Origin; at <= p.Origin+p.Length; at += step {
		c.label(x(at), axis+18, "middle", 12, "#5b6472", "normal", clock(at-p.Origin))
	}
	for i, text := range p.Below {
		c.label(16, axis+44+textHeight*float64(i), "start", 12, "#5b6472", "normal", text)
	}
	return c.String()
}

// clock is a time as hours and minutes, or minutes and seconds.
func clock(d time.Duration) string {
	if d >= time.Hour {
		return fmt.Sprintf("%d h %02d", d/time.Hour, d%time.Hour/time.Minute)
	}
	if d%time.Minute == 0 {
		return fmt.Sprintf("%d min", d/time.Minute)
	}
	return fmt.Sprintf("%d:%02d min", d/time.Minute, d%time.Minute/time.Second)
}

// timeStep is the distance of labels on the axis: there are four to ten.
func timeStep(length time.Duration) time.Duration {
	for _, step := range []time.Duration{10 * time.Second, 30 * time.Second, time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 30 * time.Minute} {
		if length/step <= 10 {
			return step
		}
	}
	return (length / 8).Round(time.Hour) + time.Hour
}

// draw draws a panel whose area begins at a height.
func (p Panel) draw(c *canvas, top float64, x func(time.Duration) float64) {
	const right = courseWidth - courseRight
	least, most := p.bounds()
	scale := func(v float64) float64 { return v }
	if p.Logarithmic {
		scale = math.Log10
	}
	y := func(v float64) float64 {
		return top + (panelHeight-8)*(1-(scale(v)-scale(least))/(scale(most)-scale(least)))
	}
	c.label(16, top-10, "start", 13, dark, "bold", p.Title)
	for _, v := range p.marks(least, most) {
		c.line(courseLeft, y(v), right, y(v), faint, 1)
		c.label(courseLeft-8, y(v)+4, "end", 12, "#5b6472", "normal", strconv.FormatFloat(v, 'f', -1, 64))
	}
	type end struct {
		at    float64
		curve Curve
	}
	var ends []end
	for _, curve := range p.Curves {
		var points []string
		var last float64
		for _, one := range curve.Points {
			if p.Logarithmic && one.Value <= 0 {
				continue
			}
			last = y(one.Value)
			points = append(points, fmt.Sprintf("%.1f,%.1f", x(one.At), last))
		}
		if len(points) == 0 {
			continue
		}
		width, opacity := 1.8, 1.0
		if curve.Faint {
			width, opacity = 1, 0.45
		}
		c.add(`<polyline points="%s" fill="none" stroke="%s" stroke-width="%g" stroke-opacity="%g" stroke-linejoin="round"/>`,
			strings.Join(points, " "), colours[curve.Colour%len(colours)], width, opacity)
		if curve.Label != "" {
			ends = append(ends, end{last, curve})
		}
	}
	slices.SortStableFunc(ends, func(a, b end) int { return int(math.Copysign(1, a.at-b.at)) })
	// As high as the curve ends, where there is room above and below.
	const apart = 16
	lowest := top - apart + 4
	for i, e := range ends {
		latest := top + panelHeight - apart*float64(len(ends)-1-i)
		lowest = min(max(e.at, lowest+apart), max(latest, lowest+apart))
		c.label(right+10, lowest+4, "start", 12, colours[e.curve.Colour%len(colours)], "normal", e.curve.Label)
	}
}

// bounds are the least and the greatest that the panel has room for: zero is on one that is not
// logarithmic.
func (p Panel) bounds() (least, most float64) {
	least, most = math.Inf(1), 0
	for _, curve := range p.Curves {
		for _, one := range curve.Points {
			if one.Value > 0 || !p.Logarithmic {
				least, most = min(least, one.Value), max(most, one.Value)
			}
		}
	}
	switch {
	case math.IsInf(least, 1) || most == 0:
		return 0.1, 1 // there is nothing to show
	case !p.Logarithmic:
		return 0, most * 1.05
	}
	least, most = math.Pow(10, math.Floor(math.Log10(least))), math.Pow(10, math.Ceil(math.Log10(most)))
	return least, max(most, 10*least)
}

// marks are round figures between the bounds.
func (p Panel) marks(least, most float64) (all []float64) {
	if p.Logarithmic {
		for v := least; v <= most*1.01; v *= 10 {
			all = append(all, math.Round(v*1e6)/1e6)
		}
		return all
	}
	step := math.Pow(10, math.Floor(math.Log10(most)))
	switch {
	case most/step < 2:
		step /= 2
	case most/step > 5:
		step *= 2
	}
	for v := 0.0; v <= most; v += step {
		all = append(all, v)
	}
	return all
}
