package metrics

import (
	"bufio"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// Whoever connects and says nothing keeps others away for a while, and not for
// ever.
func TestServeGivesSilentClientsUp(t *testing.T) {
	const patience = 500 * time.Millisecond
	address := start(t, patience)
	var silent []net.Conn
	began := time.Now()
	for range 3 * maxClients {
		conn := dial(t, address)
		defer conn.Close()
		silent = append(silent, conn)
	}
	answer := say(t, address, "GET /ok HTTP/1.1\r\n\r\n")
	if took := time.Since(began); !strings.HasSuffix(answer, "ok\n") || took < patience || took > 8*patience {
		t.Errorf("after %v: %q", took, answer)
	}
	for i, conn := range silent {
		if _, err := bufio.NewReader(conn).ReadString('x'); err != io.EOF {
			t.Errorf("silent client %d: %v", i, err)
		}
	}
}

// One client less than fit, and the next one does not wait at all.
func TestServeDoesNotWaitForSilentClients(t *testing.T) {
	address := start(t, clientTime)
	for range maxClients - 1 {
		defer dial(t, address).Close()
	}
	began := time.Now()
	if answer := say(t, address, "GET /ok HTTP/1.1\r\n\r\n"); !strings.HasSuffix(answer, "ok\n") || time.Since(began) > time.Second {
		t.Errorf("after %v: %q", time.Since(began), answer)
	}
}
