package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"example.com/pod-info-fuse/bench/svg"
	"example.com/pod-info-fuse/e2e/internal/steady"
)

// seen is a run.
type seen struct {
	at      time.Time
	command string
	machine string
	busy    float64 // share of the CPUs' time
	failed  bool
	lines   []steady.Line
}

// panels are the plots: each has a curve for everybody who has the figure and the ending of the
// name.
var panels = []struct {
	title        string
	figure, also string  // also is faint
	scale        float64 // 0: 1
	ending       string  // of a name, which the label leaves out
}{
	{title: "Private memory, MiB", figure: steady.Private, scale: 1. / 1024},
	{title: "Open descriptors", figure: steady.Descriptors},
	{title: "To open, read and close a small file, ms", figure: steady.Median, also: steady.P99, ending: ", read"},
	{title: "A call-out or request that mounts, ms", figure: steady.Median, also: steady.P99, ending: ", mount"},
	{title: "One that unmounts, ms", figure: steady.Median, also: steady.P99, ending: ", unmount"},
}

// picture draws the run.
func (s seen) picture() (string, error) {
	if len(s.lines) == 0 {
		return "", errors.New("nothing was seen")
	}
	first := slices.MinFunc(s.lines, byTime).At
	last := slices.MaxFunc(s.lines, byTime).At
	title := "A long run, all three ways to a volume side by side: " + s.command
	if s.failed {
		title += ", which FAILED"
	}
	course := svg.Course{
		Title: title,
		Above: []string{
			fmt.Sprintf("%s, %s; the CPUs were busy for %.0f %% of the time", s.at.UTC().Format(time.DateOnly), s.machine, 100*s.busy),
			"Memory and descriptors: the least of the first and of the last quarter of the time. Times: medians; faint, what 99 of 100 took at most.",
		},
		Below:  s.told(),
		Length: last.Sub(first),
	}
	for _, p := range panels {
		panel := svg.Panel{Title: p.title, Logarithmic: p.also != ""}
		for i, name := range s.names(p.figure, p.ending) {
			curve := s.curve(name, p.figure, cmp.Or(p.scale, 1), first)
			curve.Colour = i
			curve.Label = strings.TrimSuffix(name, p.ending) + ": " + summary(curve.Points, p.also != "")
			if p.also != "" {
				also := s.curve(name, p.also, cmp.Or(p.scale, 1), first)
				also.Colour, also.Faint = i, true
				panel.Curves = append(panel.Curves, also)
			}
			panel.Curves = append(panel.Curves, curve)
		}
		course.Panels = append(course.Panels, panel)
	}
	return course.SVG(), nil
}

func byTime(a, b steady.Line) int { return a.At.Compare(b.At) }

// names are those that have a figure, and end so.
func (s seen) names(figure, ending string) (names []string) {
	for _, one := range s.lines {
		if _, has := one.Figures[figure]; has && strings.HasSuffix(one.Name, ending) {
			names = append(names, one.Name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func (s seen) curve(name, figure string, scale float64, first time.Time) (c svg.Curve) {
	for _, one := range s.lines {
		if v, has := one.Figures[figure]; has && one.Name == name {
			c.Points = append(c.Points, svg.Point{At: one.At.Sub(first), Value: v * scale})
		}
	}
	return c
}

// summary is the median of all looks, or the least of the first and the last quarter, as those are
// judged.
func summary(points []svg.Point, median bool) string {
	values := make([]float64, len(points))
	for i, p := range points {
		values[i] = p.Value
	}
	if median {
		slices.Sort(values)
		return figure(values[len(values)/2])
	}
	n := max(len(values)/4, 1)
	return figure(slices.Min(values[:n])) + " → " + figure(slices.Min(values[len(values)-n:]))
}

// figure has three digits.
func figure(v float64) string {
	if v >= 100 {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.3g", v)
}

// told is how much was done, in words.
func (s seen) told() (all []string) {
	number := func(name string) (n, longest float64) {
		for _, one := range s.lines {
			if one.Name == name {
				n, longest = n+one.Figures[steady.Number], max(longest, one.Figures[steady.Longest])
			}
		}
		return n, longest
	}
	for _, way := range []string{"FlexVolume", "CSI", "pod-fuse"} {
		reads, longest := number(way + ", read")
		mounts, _ := number(way + ", mount")
		all = append(all, fmt.Sprintf("%s: %.0f volumes mounted, %.0f reads timed, the longest %.0f ms.", way, mounts, reads, longest))
	}
	kills, _ := number("pod-fuse, kill")
	_, back := number("pod-fuse, a killed program is back") // which is not known of every kill
	looks, _ := number("pod-fuse, first look")
	return append(all, fmt.Sprintf("Of pod-fuse, %.0f pods came and went. In the one that stayed, the program was killed %.0f times, and back after %.0f ms at most.", looks, kills, back))
}
