package metrics

import (
	"strings"
	"testing"
)

// Whatever is sent, it is refused, or is a request with a path, and no more of it
// is read than the limit.
func FuzzRequest(f *testing.F) {
	f.Add("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
	f.Add("GET /a?b=c?d HTTP/1.0\n\n")
	f.Add("HEAD /\x00 HTTP/1.9\r\nA: b\r\n c\r\n\r\nbody")
	f.Add("GET / HTTP/1.1")
	f.Add(" / HTTP/1.\n\n")
	f.Fuzz(func(t *testing.T, text string) {
		rest := strings.NewReader(text + strings.Repeat("x", 2*maxRequest))
		method, path, err := readRequest(rest)
		if read := int(rest.Size()) - rest.Len(); read > maxRequest {
			t.Errorf("%d bytes are read", read)
		}
		if err != nil {
			if len(err.Error()) > 1000 {
				t.Errorf("the error is %d bytes long", len(err.Error()))
			}
			return
		}
		if !strings.HasPrefix(path, "/") || strings.ContainsAny(path, " \n?") || strings.ContainsAny(method, " \n") {
			t.Errorf("%q: %q, %q", text, method, path)
		}
		if !strings.Contains(text, "\n\n") && !strings.Contains(text, "\n\r") {
			t.Errorf("%q has no end", text)
		}
	})
}
