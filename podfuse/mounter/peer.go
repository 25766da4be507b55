package mounter

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"example.com/pod-info-fuse/internal/packet"
	"example.com/pod-info-fuse/podfuse/wire"
)

// peer is a link to a pair. While one version of the pair takes over from another, there are
// two: each can order, and the one that has said hello last is told what happens.
type peer struct {
	number uint64
	socket *packet.Socket
	events chan event
	lost   atomic.Bool // an event was, since all was told
	// receivers are children that have opened descriptors of this link, and have not ended.
	receivers atomic.Int32
	receiver  *receiver // that waits for the next packet; nil: none does
}

type event struct {
	wire.Event
	files []*os.File
	order string // that it answers, by its name in the set
}

type peerMeta struct {
	Current bool `json:"current,omitempty"`
}

// mostEvents is how many events wait for a pair that does not read. It loses those after them, and
// is told all when it has read them.
const mostEvents = 4096

// tellAgain is how long a pair that has lost events is left to read.
const tellAgain = 100 * time.Millisecond

// mostOrder is how long an order may be, in bytes: it is kept in a packet that has more.
const mostOrder = packet.Max - 2048

func peerName(number uint64) string { return linkPrefix + strconv.FormatUint(number, 10) }

// newLink makes a link, and returns the pair's end.
func (m *mounter) newLink() (*os.File, error) {
	for len(m.links) >= mostLinks {
		oldest := uint64(0)
		for number := range m.links {
			if number != m.current && (oldest == 0 || number < oldest) {
				oldest = number
			}
		}
		m.endLink(oldest)
	}
	ours, theirs, err := packet.Pair()
	if err != nil {
		return nil, err
	}
	number := m.nextGeneration()
	m.set.Put(peerName(number), peerMeta{}, ours)
	if err := m.addLink(number, ours); err != nil {
		m.set.Drop(peerName(number))
		theirs.Close()
		return nil, err
	}
	return theirs, nil
}

func (m *mounter) resumeLink(name string) {
	var meta peerMeta
	file, _ := m.set.Get(name, &meta)
	number, err := strconv.ParseUint(strings.TrimPrefix(name, linkPrefix), 10, 64)
	if err == nil {
		err = m.addLink(number, file)
	}
	if err != nil {
		m.log("%s was kept for nothing: %v", name, err)
		m.set.Drop(name)
		return
	}
	if meta.Current {
		m.current = number
	}
}

func (m *mounter) addLink(number uint64, file *os.File) error {
	if file == nil {
		return os.ErrInvalid
	}
	socket, err := packet.New(file)
	if err != nil {
		return err
	}
	p := &peer{number: number, socket: socket, events: make(chan event, mostEvents)}
	m.links[number] = p
	m.last = max(m.last, number)
	go m.write(p)
	go m.read(p)
	return nil
}

// endLink closes a link.
func (m *mounter) endLink(number uint64) {
	p := m.links[number]
	if p == nil {
		return
	}
	delete(m.links, number)
	if m.current == number {
		m.current = 0
	}
	close(p.events)
	go p.socket.Close() // it may have descriptors in it
	m.set.Drop(peerName(number))
}

// read takes orders, until the pair is gone. An order is peeked at, kept, and only then taken
// off the socket: when this process is killed, the next one has it.
func (m *mounter) read(p *peer) {
	troubles := 0
	for {
		text, withFiles, err := p.socket.Peek(time.Time{})
		if err == nil && len(text) > mostOrder {
			err = packet.ErrTooLong
		}
		release := func() {}
		if err == packet.ErrTooLong {
			m.refuse(&troubles, "%v", err)
		} else if err != nil {
			break
		} else {
			var o wire.Order
			if err := packet.Decode(text, &o); err != nil {
				m.refuse(&troubles, "%v", err)
			} else {
				pause("order " + string(o.Kind))
				if release, err = m.take(p, o, withFiles); err != nil {
					m.refuse(&troubles, "%s of volume %s: %v", o.Kind, o.Volume, err)
				}
			}
		}
		_ = p.socket.Skip()
		release()
	}
	m.do(func() { m.endLink(p.number) })
}

// take takes an order with what comes with it. release is called when the packet is off the socket.
func (m *mounter) take(p *peer, o wire.Order, withFiles bool) (release func(), err error) {
	release = func() {}
	with := enclosed{any: withFiles}
	known, full := false, false
	m.do(func() {
		known = m.orders[orderName(p.number, o)] != nil
		if full = len(m.orders) >= mostOrders; full {
			_, pod := m.subject(o)
			full = m.ordersOf(pod) >= fewOrders
		}
	})
	switch {
	case known:
		return release, nil
	case full && (hasSocket(o.Kind) || o.Kind == wire.Attach):
		with.err = errTooMany
	case withFiles && hasSocket(o.Kind):
		with.socket, release, with.err = m.receive(p)
	}
	m.do(func() { err = m.order(p.number, o, with) })
	return release, err
}

// refuse logs what the pair wanted and does not get. A hostile one could fill the log.
func (m *mounter) refuse(count *int, format string, args ...any) {
	if *count++; *count <= 100 || *count%1000 == 0 {
		m.log("refused: %s", fmt.Sprintf(format, args...))
	}
}

// tell queues an event.
func (p *peer) tell(e wire.Event, files ...*os.File) {
	var own []*os.File // the set's may be closed before it is sent
	for _, file := range files {
		if copied, err := duplicate(file); err == nil {
			own = append(own, copied)
		}
	}
	if !p.queue(event{Event: e, files: own}) {
		packet.Close(own)
	}
}

// queue reports whether there was room for an event.
func (p *peer) queue(e event) bool {
	for range 2 { // once more: write looks at lost after each event, and may just have read the last one
		select {
		case p.events <- e:
			return true
		default:
			p.lost.Store(true)
		}
	}
	return false
}

func (m *mounter) write(p *peer) {
	for e := range p.events {
		pause("tell " + string(e.Kind))
		if err := p.socket.Send(10*time.Second, e.Event, e.files...); err != nil {
			p.lost.Store(true) // its death is read
		}
		packet.Close(e.files)
		if e.order != "" { // not before: who is killed with an answer that he has not sent leaves it to the next mounter
			m.do(func() { m.dropOrder(e.order) })
		}
		if len(p.events) == 0 && p.lost.Swap(false) {
			time.Sleep(tellAgain) // it was too slow, or is dead
			m.do(func() {
				if m.current == p.number {
					m.tellAll()
				}
			})
		}
	}
}
