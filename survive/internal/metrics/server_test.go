package metrics

import (
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// start serves pages until the test ends, and returns its address.
func start(t *testing.T, clientTime time.Duration) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error)
	go func() {
		ended <- serve(listener, map[string]func() Page{
			"/ok":      OK,
			"/not":     func() Page { return Unavailable("because") },
			"/late":    func() Page { time.Sleep(clientTime + 100*time.Millisecond); return OK() },
			"/metrics": func() Page { return Page{200, ContentType, strings.Repeat("x 1\n", 100_000)} },
		}, clientTime)
	}()
	t.Cleanup(func() {
		listener.Close()
		if err := <-ended; err == nil {
			t.Error("it ended without an error")
		}
	})
	return listener.Addr().String()
}

// What a page asks may hang, within limits of its own: that is what its reader wants to know.
func TestServeSendsAPageThatTakesItsTime(t *testing.T) {
	t.Parallel()
	if answer := say(t, start(t, 2*time.Second), "GET /late HTTP/1.1\r\n\r\n"); !strings.HasSuffix(answer, "\r\n\r\nok\n") {
		t.Errorf("%q", answer)
	}
}

func TestServeAnswersAStandardClient(t *testing.T) {
	address := start(t, forever)
	for _, row := range []struct {
		method, path string
		status       int
		kind, body   string
	}{
		{"GET", "/ok", 200, "text/plain; charset=utf-8", "ok\n"},
		{"GET", "/ok?verbose=1", 200, "text/plain; charset=utf-8", "ok\n"},
		{"GET", "/not", 503, "text/plain; charset=utf-8", "because\n"},
		{"GET", "/metrics", 200, "text/plain; version=0.0.4; charset=utf-8", strings.Repeat("x 1\n", 100_000)},
		{"HEAD", "/ok", 200, "text/plain; charset=utf-8", ""},
		{"HEAD", "/not", 503, "text/plain; charset=utf-8", ""},
		{"GET", "/", 404, "text/plain; charset=utf-8", "there is no page /\n"},
		{"GET", "/ok/", 404, "text/plain; charset=utf-8", "there is no page /ok/\n"},
		{"HEAD", "/none", 404, "text/plain; charset=utf-8", ""},
		{"POST", "/none", 404, "text/plain; charset=utf-8", "there is no page /none\n"},
		{"POST", "/ok", 405, "text/plain; charset=utf-8", "only GET and HEAD\n"},
		{"DELETE", "/metrics", 405, "text/plain; charset=utf-8", "only GET and HEAD\n"},
	} {
		request, err := http.NewRequest(row.method, "http://"+address+row.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Errorf("%s %s: %v", row.method, row.path, err)
			continue
		}
		body, err := io.ReadAll(response.Body)
		response.Body.Close()
		if err != nil || response.StatusCode != row.status || response.Header.Get("Content-Type") != row.kind || string(body) != row.body {
			t.Errorf("%s %s: %s, %q, %.100q, %v; want %+.100v", row.method, row.path, response.Status, response.Header, body, err, row)
		}
		if allow := response.Header.Get("Allow"); (allow == "GET, HEAD") != (row.status == 405) {
			t.Errorf("%s %s: Allow: %q", row.method, row.path, allow)
		}
		if row.method == "HEAD" && response.ContentLength <= 0 {
			t.Errorf("%s %s: Content-Length %d", row.method, row.path, response.ContentLength)
		}
	}
}
