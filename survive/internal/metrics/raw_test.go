package metrics

import (
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// forever is how long an answer may take that comes at once, also on a busy machine.
const forever = time.Minute

// say sends bytes, and returns what comes back until the connection is closed.
func say(t *testing.T, address, request string) string {
	t.Helper()
	conn := dial(t, address)
	defer conn.Close()
	go io.WriteString(conn, request)
	answer, _ := io.ReadAll(conn) // may end with a reset, where not all has been read
	return string(answer)
}

func dial(t *testing.T, address string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.SetDeadline(time.Now().Add(forever))
	return conn
}

func TestServeRefusesWhatIsNoRequest(t *testing.T) {
	t.Parallel()
	patient, impatient := start(t, forever), start(t, 300*time.Millisecond)
	endless := strings.Repeat("x", maxRequest)
	for name, row := range map[string]struct{ request, answer string }{
		"good":               {"GET /ok HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 200 OK\r\n"},
		"of 1996":            {"GET /ok HTTP/1.0\r\n\r\n", "HTTP/1.1 200 OK\r\n"},
		"newlines alone":     {"GET /ok HTTP/1.1\n\n", "HTTP/1.1 200 OK\r\n"},
		"of 1991":            {"GET /ok\r\n\r\n", "HTTP/1.1 400 Bad Request\r\n"},
		"of 2015":            {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "HTTP/1.1 400 Bad Request\r\n"},
		"garbage":            {"\x16\x03\x01\x02\x00\n", "HTTP/1.1 400 Bad Request\r\n"},
		"an empty line":      {"\r\n", "HTTP/1.1 400 Bad Request\r\n"},
		"for a proxy":        {"GET http://x/ok HTTP/1.1\r\n\r\n", "HTTP/1.1 400 Bad Request\r\n"},
		"a line too long":    {endless, "HTTP/1.1 400 Bad Request\r\n"},
		"a head too long":    {("GET /ok HTTP/1.1\r\nX: " + endless)[:maxRequest], "HTTP/1.1 400 Bad Request\r\n"},
		"many heads":         {("GET /ok HTTP/1.1\r\n" + strings.Repeat("X: y\r\n", maxRequest))[:maxRequest], "HTTP/1.1 400 Bad Request\r\n"},
		"a head that stops":  {"GET /ok HTTP/1.1\r\nHost", ""},
		"a line that stops":  {"GET /ok", ""},
		"nothing":            {"", ""},
		"a quote in a path":  {"GET /\"<b> HTTP/1.1\r\n\r\n", "HTTP/1.1 404 Not Found\r\nContent-Type: text/plain;"},
		"a line in a method": {"GET\r /ok HTTP/1.1\r\n\r\n", "HTTP/1.1 405 Method Not Allowed\r\n"},
	} {
		address := patient
		if row.answer == "" { // it is not waited for
			address = impatient
		}
		began := time.Now()
		if answer := say(t, address, row.request); !strings.HasPrefix(answer, row.answer) || row.answer == "" && answer != "" {
			t.Errorf("%s: %.200q, want %q", name, answer, row.answer)
		}
		if took := time.Since(began); took > forever/2 {
			t.Errorf("%s: it took %v", name, took)
		}
	}
	// More than is ever read: the connection is closed, and others are served.
	if answer := say(t, patient, strings.Repeat(endless, 100)); answer != "" && !strings.HasPrefix(answer, "HTTP/1.1 400 ") {
		t.Errorf("much too long: %.200q", answer)
	}
	if answer := say(t, patient, "GET /ok HTTP/1.1\r\n\r\n"); !strings.HasSuffix(answer, "\r\n\r\nok\n") {
		t.Errorf("then: %q", answer)
	}
}
