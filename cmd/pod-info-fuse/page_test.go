package main_test

import (
	"fmt"
	"slices"
	"strings"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// metrics reads the page as Prometheus does: samples by their name and labels, a
// histogram's count and sum as two of them.
func (w *watched) metrics() map[string]float64 {
	w.t.Helper()
	status, page := w.get("/metrics")
	if status != 200 {
		w.t.Fatalf("/metrics: status %d: %s", status, page)
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(page))
	if err != nil {
		w.t.Fatalf("/metrics: %v\n%s", err, page)
	}
	samples := map[string]float64{}
	for name, family := range families {
		if !strings.HasPrefix(name, "fuse_driver_") || family.GetHelp() == "" {
			w.t.Errorf("%s: %q", name, family.GetHelp())
		}
		for _, m := range family.Metric {
			var labels []string
			if m.Label[0].GetName() != "driver" || m.Label[0].GetValue() != "pod-info-fuse" {
				w.t.Errorf("%s is of no driver: %v", name, m)
			}
			for _, l := range m.Label[1:] {
				labels = append(labels, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
			}
			slices.Sort(labels)
			key := strings.TrimPrefix(name, "fuse_driver_") + "{" + strings.Join(labels, ",") + "}"
			if h := m.Histogram; h != nil {
				samples[key+" count"], samples[key+" sum"] = float64(h.GetSampleCount()), h.GetSampleSum()
				last := h.Bucket[len(h.Bucket)-1]
				if last.GetCumulativeCount() != h.GetSampleCount() {
					w.t.Errorf("%s: the last class has %d of %d", key, last.GetCumulativeCount(), h.GetSampleCount())
				}
				continue
			}
			samples[key] = m.GetCounter().GetValue() + m.GetGauge().GetValue() // one is nil
		}
	}
	return samples
}

// counts waits until samples have values.
func (w *watched) counts(want map[string]float64) {
	w.t.Helper()
	var now map[string]float64
	defer func() {
		for name, value := range want {
			if got, there := now[name]; got != value || !there {
				w.t.Errorf("%s is %v (there: %v), want %v", name, got, there, value)
			}
		}
	}()
	eventually(w.t, "the metrics are right", func() bool {
		now = w.metrics()
		for name, value := range want {
			if got, there := now[name]; got != value || !there {
				return false
			}
		}
		return true
	})
}
