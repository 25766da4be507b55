//go:build cluster

package cluster

import (
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// The ports of the installer's containers, one for each driver.
const firstPort, podFusePort = "9808", "9809"

// scrape gets the metrics of one of the installer's containers at the address of its pod, as
// Prometheus does: names with their labels, sorted, as in a query, and values.
func scrape(t *testing.T, port string) map[string]float64 {
	t.Helper()
	client := http.Client{Timeout: 10 * time.Second}
	answer, err := client.Get("http://" + net.JoinHostPort(installer(t), port) + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(answer.Body)
	if err != nil {
		t.Fatalf("the metrics are not Prometheus' text: %v", err)
	}
	found := map[string]float64{}
	for name, family := range families {
		for _, metric := range family.Metric {
			found[name+labels(metric)] = value(metric)
		}
	}
	return found
}

func labels(metric *dto.Metric) string {
	var pairs []string
	for _, label := range metric.Label {
		pairs = append(pairs, label.GetName()+`="`+label.GetValue()+`"`)
	}
	if len(pairs) == 0 {
		return ""
	}
	slices.Sort(pairs)
	return "{" + strings.Join(pairs, ",") + "}"
}

// value is how many observations a histogram has, or the value of anything else.
func value(metric *dto.Metric) float64 {
	if metric.Histogram != nil {
		return float64(metric.Histogram.GetSampleCount())
	}
	return metric.GetGauge().GetValue() + metric.GetCounter().GetValue()
}
