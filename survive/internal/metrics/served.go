package metrics

import "example.com/pod-info-fuse/survive/internal/counters"

// WriteCounts writes what the daemon has counted. They are numbers that a hostile process may have
// written: any of them makes a valid page.
func WriteCounts(t *Text, c counters.Counts) {
	t.Family("starts_total", "counter", "How often the daemon was started where none was left to take over.")
	t.Sample(float64(c.Starts))
	t.Family("takeovers_total", "counter", "How often another process took over, by the cause.")
	for i, cause := range counters.Causes {
		t.Sample(float64(c.Takeovers[i]), "cause", cause)
	}
	t.Family("requests_total", "counter", "Requests of the kernel, by their kind.")
	for i, kind := range counters.Kinds {
		t.Sample(float64(c.Requests[i]), "kind", kind)
	}
	t.Family("request_errors_total", "counter", "Answers that were errors, by their names.")
	for i, name := range counters.Errors {
		t.Sample(float64(c.Errors[i]), "error", name)
	}
	t.Family("answer_duration_seconds", "histogram", "How long answers took, from when they were begun.")
	t.histogram(counters.Bounds[:], c.Classes[:], seconds(c.Time))
	t.Family("longest_answer_seconds", "gauge", "How long the longest of them took.")
	t.Sample(seconds(c.Longest))
	t.Family("requests_refused_total", "counter", "Requests that were answered with EIO: their kind had ended two processes, or there was no standby.")
	t.Sample(float64(c.Refused))
}

// seconds are nanoseconds that may be more than a time.Duration has room for.
func seconds(nanoseconds uint64) float64 { return float64(nanoseconds) / 1e9 }
