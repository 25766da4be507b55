package page

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"example.com/pod-info-fuse/survive/internal/metrics"
)

func TestTextIsWhatPrometheusReads(t *testing.T) {
	values := []string{"plain", "", `back\slash`, `"quoted"`, "two\nlines", "ü", "not UTF-8: \xff", `{a="b"} 1 # HELP`, `\n`}
	text := metrics.NewText("pod-info-fuse")
	text.Family("first", "gauge", "What it is.")
	for i, value := range values {
		text.Sample(float64(i)+0.5, "label", value, "other", "x")
	}
	text.Family("second_total", "counter", "Another.")
	text.Sample(1e18)
	var c metrics.Calls
	last := len(c[1].Classes) - 1
	c[1].Outcomes[0], c[1].Classes[3], c[1].Classes[last], c[1].Total = 3, 2, 1, uint64(12*time.Second)
	c.Write(text)

	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(text.String()))
	if err != nil {
		t.Fatalf("%v\n%s", err, text.String())
	}
	first := families["fuse_driver_first"]
	if first.GetHelp() != "What it is." || len(first.GetMetric()) != len(values) {
		t.Fatalf("%v", first)
	}
	for i, m := range first.GetMetric() {
		want := strings.ToValidUTF8(values[i], "\uFFFD")
		if got := m.GetLabel()[1].GetValue(); got != want || m.GetGauge().GetValue() != float64(i)+0.5 {
			t.Errorf("%q became %q, %v", values[i], got, m)
		}
	}
	if got := families["fuse_driver_second_total"].GetMetric()[0].GetCounter().GetValue(); got != 1e18 {
		t.Errorf("second: %v", got)
	}
	for _, m := range families["fuse_driver_callout_duration_seconds"].GetMetric() {
		h, mount := m.GetHistogram(), m.GetLabel()[1].GetValue() == "mount"
		if buckets := len(h.GetBucket()); buckets != last+1 {
			t.Errorf("%v: %d buckets", m, buckets)
		}
		below := 0.0
		for i, b := range h.GetBucket() {
			upper, count := b.GetUpperBound(), uint64(0)
			switch {
			case mount && i == last:
				count = 3
			case mount && i >= 3:
				count = 2
			}
			if !(upper > below) || math.IsInf(upper, 1) != (i == last) || b.GetCumulativeCount() != count {
				t.Errorf("bucket %d of %v: up to %v, after %v: want %d", i, m, upper, below, count)
			}
			below = upper
		}
		if mount && (h.GetSampleSum() != 12 || h.GetSampleCount() != 3) {
			t.Errorf("mount: %v", h)
		}
	}
}
