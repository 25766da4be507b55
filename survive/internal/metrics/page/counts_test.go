package page

import (
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"example.com/pod-info-fuse/survive/internal/counters"
	"example.com/pod-info-fuse/survive/internal/metrics"
)

// Whoever has taken the daemon over writes what it likes: the page is valid all the same, no value
// is negative or no number, and a histogram's buckets are in their order.
func TestAnyCountsMakeAValidPage(t *testing.T) {
	fill := func(word func() uint64) (c counters.Counts) {
		v := reflect.ValueOf(&c).Elem()
		for i := range v.NumField() {
			if f := v.Field(i); f.Kind() == reflect.Struct {
				continue // package suspects: nobody reads that here
			} else if f.Kind() == reflect.Array {
				for j := range f.Len() {
					f.Index(j).SetUint(word())
				}
			} else {
				f.SetUint(word())
			}
		}
		return c
	}
	all := []counters.Counts{
		{},
		fill(func() uint64 { return math.MaxUint64 }),
		fill(func() uint64 { return math.Float64bits(math.NaN()) }),
		fill(func() uint64 { return 1 << 63 }),
	}
	for range 100 {
		all = append(all, fill(rand.Uint64))
	}
	for _, c := range all {
		text := metrics.NewText("some-driver")
		metrics.WriteCounts(text, c)
		parser := expfmt.NewTextParser(model.LegacyValidation)
		families, err := parser.TextToMetricFamilies(strings.NewReader(text.String()))
		if err != nil || len(families) != 7 {
			t.Fatalf("%d families, %v:\n%s", len(families), err, text)
		}
		check := func(name string, value float64) {
			if !(value >= 0 && value <= 20*math.MaxUint64) {
				t.Errorf("%s is %v", name, value)
			}
		}
		for name, family := range families {
			for _, m := range family.Metric {
				check(name, m.GetCounter().GetValue()+m.GetGauge().GetValue())
				h, before := m.GetHistogram(), 0.0
				check(name, h.GetSampleSum())
				for _, b := range h.GetBucket() {
					if now := b.GetCumulativeCountFloat() + float64(b.GetCumulativeCount()); !(now >= before) {
						t.Errorf("%s: %v after %v", name, now, before)
					} else {
						before = now
					}
				}
			}
		}
	}
}
