package metrics

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"time"
)

const (
	// maxRequest is how much of a request is read, in bytes.
	maxRequest = 16 << 10
	// maxAnswers is how many are answered at a time; others wait.
	maxAnswers = 8
	// maxWaiting is how many later connections drop one that is still without an answer.
	// Otherwise clients that send nothing could keep a kubelet waiting that asks whether we
	// live. It sends its request at once, and has its answer before so many others come.
	maxWaiting = 64
	// clientTime is how long a client may take to ask, and again to take the answer. It is short
	// because the kubelet may have to wait for other clients, and its probes have a limit of their
	// own. How long the page takes is not the client's fault: it asks processes that may hang.
	clientTime = 2 * time.Second
)

// Page is an answer.
type Page struct {
	Status int // of HTTP: 200, 503
	Type   string
	Body   string
}

// Serve answers GET and HEAD requests with pages, by their path, until the
// listener is closed. It speaks just as much of HTTP/1.1 (RFC 9112) as kubelets and
// Prometheus need: one request per connection, without a body.
func Serve(listener net.Listener, pages map[string]func() Page) error {
	return serve(listener, pages, clientTime)
}

func serve(listener net.Listener, pages map[string]func() Page, clientTime time.Duration) error {
	waiting := make(chan context.CancelFunc, maxWaiting) // in the order in which they came
	answers := make(chan struct{}, maxAnswers)
	for {
		conn, err := listener.Accept()
		if err != nil {
			return err
		}
		ctx, drop := context.WithCancel(context.Background())
		keep := context.AfterFunc(ctx, func() { conn.Close() }) // false: it was dropped
		if len(waiting) == cap(waiting) {
			(<-waiting)()
		}
		waiting <- drop
		go func() {
			defer conn.Close()
			defer drop()
			_ = conn.SetDeadline(time.Now().Add(clientTime))
			method, path, err := readRequest(conn)
			if err != nil {
				if keep() {
					writePage(conn, plainPage(400, err.Error()), true)
				}
				return
			}
			select {
			case answers <- struct{}{}:
				defer func() { <-answers }()
			case <-ctx.Done():
				return
			}
			if keep() {
				page := answer(method, path, pages)
				_ = conn.SetDeadline(time.Now().Add(clientTime))
				writePage(conn, page, method != "HEAD")
			}
		}()
	}
}

// readRequest reads the head of a request.
func readRequest(from io.Reader) (method, path string, err error) {
	lines := bufio.NewReader(io.LimitReader(from, maxRequest))
	first, err := lines.ReadString('\n')
	if err != nil {
		return "", "", fmt.Errorf("no request line in %d bytes: %w", maxRequest, err)
	}
	words := strings.Split(strings.TrimRight(first, "\r\n"), " ")
	if len(words) != 3 || !strings.HasPrefix(words[2], "HTTP/1.") || !strings.HasPrefix(words[1], "/") {
		return "", "", fmt.Errorf("not a request of HTTP/1.1: %.100q", first)
	}
	for { // to the end of the head, because a client may not read before it has written
		line, err := lines.ReadString('\n')
		if err != nil {
			return "", "", fmt.Errorf("no end of the head in %d bytes: %w", maxRequest, err)
		}
		if strings.TrimRight(line, "\r\n") == "" {
			path, _, _ = strings.Cut(words[1], "?")
			return words[0], path, nil
		}
	}
}

func answer(method, path string, pages map[string]func() Page) Page {
	page, known := pages[path]
	switch {
	case !known:
		return plainPage(404, "there is no page "+path)
	case method != "GET" && method != "HEAD":
		return plainPage(405, "only GET and HEAD")
	}
	return page()
}

func plainPage(status int, text string) Page {
	return Page{status, "text/plain; charset=utf-8", text + "\n"}
}

// OK is a page that says that all is well.
func OK() Page { return plainPage(200, "ok") }

// Unavailable is a page that says why something is not available.
func Unavailable(why string) Page { return plainPage(503, why) }

var reasons = map[int]string{200: "OK", 400: "Bad Request", 404: "Not Found", 405: "Method Not Allowed", 503: "Service Unavailable"}

func writePage(to io.Writer, page Page, body bool) {
	head := fmt.Sprintf("HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %d\r\nConnection: close\r\n",
		page.Status, reasons[page.Status], page.Type, len(page.Body))
	if page.Status == 405 {
		head += "Allow: GET, HEAD\r\n"
	}
	if !body {
		page.Body = ""
	}
	_, _ = io.WriteString(to, head+"\r\n"+page.Body) // a client that is gone does not matter
}
