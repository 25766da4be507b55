package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/internal/packet"
	"example.com/pod-info-fuse/survive/hold"
	"example.com/pod-info-fuse/survive/volume"
)

// gate is the file system: empty volumes that nobody gets into while it is shut.
type gate struct {
	volume.Root
	config string
	given  []*os.File // the socket for clients, and the link to the companion

	mu       sync.Mutex // guards what follows
	answerer hold.Answerer
	held     map[uint64]bool
	open     bool
	link     net.Conn
}

// Begin learns from the companion whether the gate is open, and serves clients.
func (g *gate) Begin(a hold.Answerer) (end func()) {
	listener, listenErr := net.FileListener(g.given[0])
	link, err := net.FileConn(g.given[1])
	if listenErr != nil || err != nil {
		panic(fmt.Sprint(listenErr, err))
	}
	g.answerer, g.held, g.link = a, map[uint64]bool{}, link
	g.ask("state")
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go g.client(conn.(*net.UnixConn))
		}
	}()
	return func() {
		listener.Close()
		link.Close()
	}
}

// ask says something to the companion, with a descriptor, and returns what it answers.
func (g *gate) ask(text string) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	buffer := make([]byte, 100)
	_ = g.link.SetDeadline(time.Now().Add(time.Minute))
	listener, listenErr := packet.Number(g.given[0])
	link, err := packet.Number(g.given[1])
	if err = errors.Join(listenErr, err); err == nil {
		err = unix.Sendmsg(link, []byte(text), unix.UnixRights(listener), nil, 0)
	}
	n := 0
	if err == nil {
		n, err = g.link.Read(buffer)
	}
	if err != nil {
		return err.Error()
	}
	answer := string(buffer[:n])
	if g.open = strings.HasSuffix(answer, " true"); g.open {
		for id := range g.held {
			g.answerer.Fail(id, fuse.Status(unix.ESTALE))
		}
		clear(g.held)
	}
	return answer
}

// client serves a client.
func (g *gate) client(conn *net.UnixConn) {
	defer conn.Close()
	text, _, err := receive(conn)
	if err != nil {
		return
	}
	answer := g.ask(text)
	_, _ = fmt.Fprintf(conn, "%s %d %s %s.", version, os.Getpid(), answer, g.config)
}

func (g *gate) Hold(r hold.Request) bool {
	const getAttr = 3 // linux/fuse.h, enum fuse_opcode
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.open || r.Opcode != getAttr || r.Node == fuse.FUSE_ROOT_ID {
		return false
	}
	g.held[r.ID] = true
	return true
}

func (g *gate) Interrupted(id uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.held, id)
}

// Lookup and GetAttr have the kernel ask for the attributes of a volume whenever somebody goes
// there.
func (g *gate) Lookup(cancel <-chan struct{}, header *fuse.InHeader, name string, out *fuse.EntryOut) fuse.Status {
	status := g.Root.Lookup(cancel, header, name, out)
	out.AttrValid = 0
	return status
}

func (g *gate) GetAttr(cancel <-chan struct{}, in *fuse.GetAttrIn, out *fuse.AttrOut) fuse.Status {
	status := g.Root.GetAttr(cancel, in, out)
	out.AttrValid = 0
	return status
}
