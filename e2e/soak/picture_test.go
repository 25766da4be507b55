package main

import (
	"strings"
	"testing"
	"time"

	"example.com/pod-info-fuse/bench/svg"
	"example.com/pod-info-fuse/e2e/internal/steady"
)

func TestThePictureTellsOfTheRun(t *testing.T) {
	began := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	s := seen{at: began, command: "make soak SOAK=7m", machine: "Linux <1>", busy: 0.414}
	for i := range 8 {
		at := began.Add(time.Duration(i) * time.Minute)
		s.lines = append(s.lines,
			steady.Line{At: at, Name: "pod-info-fuse, active", Figures: map[string]float64{steady.Private: 2048 + 512*float64(i), steady.Descriptors: 17}},
			steady.Line{At: at, Name: "CSI, read", Figures: map[string]float64{steady.Number: 100, steady.Median: 0.25, steady.P99: 2, steady.Longest: float64(i)}},
			steady.Line{At: at, Name: "pod-fuse, kill", Figures: map[string]float64{steady.Number: 2, steady.Longest: 300}},
			steady.Line{At: at, Name: "pod-fuse, a killed program is back", Figures: map[string]float64{steady.Number: 1, steady.Longest: 40}})
	}
	picture, err := s.picture()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"make soak SOAK=7m", "2030-01-02, Linux &lt;1&gt;; the CPUs were busy for 41 % of the time",
		"pod-info-fuse, active: 2 → 5", "pod-info-fuse, active: 17 → 17", "CSI: 0.25", "7 min",
		"CSI: 0 volumes mounted, 800 reads timed, the longest 7 ms.", "killed 16 times, and back after 40 ms",
	} {
		if !strings.Contains(picture, want) {
			t.Errorf("%q is missing in %s", want, picture)
		}
	}
	if _, err := (seen{}).picture(); err == nil {
		t.Error("a picture of nothing is no error")
	}
}

func TestSummary(t *testing.T) {
	for name, c := range map[string]struct {
		values []float64
		median bool
		want   string
	}{
		"quarters":      {[]float64{5, 3, 9, 9, 9, 9, 4, 8}, false, "3 → 4"},
		"fewer than 4":  {[]float64{5, 6}, false, "5 → 6"},
		"a median":      {[]float64{0.5, 30, 0.123456}, true, "0.5"},
		"of one figure": {[]float64{0.123456}, true, "0.123"},
	} {
		var points []svg.Point
		for _, v := range c.values {
			points = append(points, svg.Point{Value: v})
		}
		if got := summary(points, c.median); got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}
