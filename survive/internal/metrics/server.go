package metrics

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// maxRequest is how much of a request is read, in bytes.
	maxRequest = 16 << 10
	// maxAnswers is how many are answered at a time; others wait.
	maxAnswers = 8
	// maxWaiting is how many connections may be open without an answer. One more takes the
	// place of the oldest.
	maxWaiting = 64
	// clientTime is how long a client may take for all of it. It is short because the
	// kubelet may have to wait for other clients, and its probes have a limit of their own.
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
	var waiting clients
	answers := make(chan struct{}, maxAnswers)
	for {
		conn, err := listener.Accept()
		if err != nil {
			return err
		}
		c := waiting.add(conn)
		go func() {
			defer c.Close()
			_ = c.SetDeadline(time.Now().Add(clientTime))
			method, path, err := readRequest(c)
			if err != nil {
				waiting.remove(c)
				writePage(c, plainPage(400, err.Error()), true)
				return
			}
			select {
			case answers <- struct{}{}:
				defer func() { <-answers }()
			case <-c.dropped:
				return
			}
			waiting.remove(c)
			writePage(c, answer(method, path, pages), method != "HEAD")
		}()
	}
}

// client is a connection that has not been answered.
type client struct {
	net.Conn
	dropped chan struct{} // closed when another one has its place
}

// clients are the connections without an answer, in the order in which they came.
type clients struct {
	mutex sync.Mutex
	all   []*client
}

// add adds one. If there are too many, it drops the oldest: a kubelet that asks whether we
// live comes last, and sends its request at once.
func (c *clients) add(conn net.Conn) *client {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if len(c.all) == maxWaiting {
		close(c.all[0].dropped)
		c.all[0].Close()
		c.all = slices.Delete(c.all, 0, 1)
	}
	added := &client{conn, make(chan struct{})}
	c.all = append(c.all, added)
	return added
}

func (c *clients) remove(gone *client) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if i := slices.Index(c.all, gone); i >= 0 {
		c.all = slices.Delete(c.all, i, i+1)
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
