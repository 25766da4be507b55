package mounter

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"example.com/pod-info-fuse/internal/packet"
	"example.com/pod-info-fuse/podfuse"
	"example.com/pod-info-fuse/podfuse/wire"
	"example.com/pod-info-fuse/survive/volume"
)

// order is one that takes time. It is kept in the set until its answer is sent.
type order struct {
	wire.Order
	Link uint64 `json:"link"`
	// Leaves, of Unmount, is the generation of the connection that it unmounts, once it is known
	// that it may. Who asked may have ended when the next mounter goes on.
	Leaves uint64 `json:"leaves,omitempty"`

	name string
	file *os.File // of Serve and Unmount: the socket of who asks
	pod  string   // see subject
}

// enclosed is what comes with an order. Of its descriptors, this process opens one only that a
// child has looked at: see receive.
type enclosed struct {
	any    bool     // it has descriptors
	socket *os.File // of who asks
	err    error    // there is none that could be used
}

// hasSocket tells of which orders the socket of who asks is a part.
func hasSocket(kind wire.Kind) bool { return kind == wire.Serve || kind == wire.Unmount }

func orderName(link uint64, o wire.Order) string {
	return fmt.Sprintf("%s%d/%d", orderPrefix, link, o.Ticket)
}

// order takes an order, and returns an error for one that it refuses at once. It is called
// again with one that the mounter before had peeked at.
func (m *mounter) order(link uint64, o wire.Order, with enclosed) error {
	err := with.err
	switch o.Kind {
	case wire.Serve, wire.Unmount:
		if err == nil && with.socket == nil {
			err = errors.New("it comes without the socket of who asks")
		}
	case wire.Attach, wire.Hello, wire.Spent, wire.Counts:
		if with.any {
			err = errors.New("it comes with descriptors, and has none")
		}
	default:
		err = errors.New("there is no such order")
	}
	if err == nil && (len(o.Mountpoint) > wire.LongestPath || len(o.Subtype) > wire.LongestSubtype) {
		err = errors.New("its words are too long to keep") // JSON may make six times as many bytes
	}
	if err != nil {
		closeLater(with.socket)
		m.answer(&order{Order: o, Link: link}, err)
		return err
	}
	switch o.Kind {
	case wire.Hello:
		m.hello(link)
		m.answer(&order{Order: o, Link: link}, nil) // it has been told everything
	case wire.Spent:
		return m.spent(o.Volume, o.Generation)
	case wire.Counts:
		if link != m.current {
			return nil // the process that said hello last counts
		}
		if _, err := m.Clients().Get(o.Volume); err == nil {
			m.count(o.Volume, max(0, o.Waiting))
		}
	default:
		kept := &order{Order: o, Link: link, name: orderName(link, o), file: with.socket}
		m.set.Put(kept.name, kept, kept.file)
		m.work(kept)
	}
	return nil
}

// closeLater closes the socket of a pod, in which there may be files of the pod's: no turn waits
// for it.
func closeLater(file *os.File) {
	if file != nil {
		go packet.CloseAside(file)
	}
}

var errTooMany = errors.New("too many orders wait")

func (m *mounter) resumeOrder(name string) {
	o := order{name: name}
	file, good := m.set.Get(name, &o)
	if o.file = file; !good || (file != nil) != hasSocket(o.Kind) {
		m.log("%s was kept for nothing", name)
		m.set.Drop(name)
		return
	}
	m.work(&o)
}

// work has an order carried out.
func (m *mounter) work(o *order) {
	_, o.pod = m.subject(o.Order)
	m.orders[o.name] = o
	go func() {
		var err error
		switch o.Kind {
		case wire.Serve:
			err = m.serve(o)
		case wire.Unmount:
			err = m.unmount(o)
		case wire.Attach:
			err = m.attach(o)
		}
		if err != nil {
			m.do(func() {
				id, _ := m.subject(o.Order)
				m.logFailure(id, string(o.Kind), err)
			})
		}
		pause("answer " + string(o.Kind))
		m.do(func() { m.answer(o, err) })
	}()
}

// ordersOf is how many orders there are for a pod.
func (m *mounter) ordersOf(pod string) (n int) {
	for _, o := range m.orders {
		if o.pod == pod {
			n++
		}
	}
	return n
}

// subject is the volume that an order is about, and the UID of its pod, without dashes. They are 0
// and "" for all volumes that there are not: of those, a pair that was taken over can name as many
// as it likes.
func (c Config) subject(o wire.Order) (id volume.ID, pod string) {
	if record, err := c.Clients().Get(o.Volume); err == nil {
		return o.Volume, podfuse.PlainUID(record.PodUID)
	}
	if record, err := c.ServerVolumes().Get(o.Server); err == nil {
		return o.Server, podfuse.PlainUID(record.PodUID)
	}
	return 0, ""
}

// answer tells the pair how an order has ended.
func (m *mounter) answer(o *order, err error) {
	e := wire.Event{Kind: wire.Done, Ticket: o.Ticket, Volume: o.Volume, Generation: o.Generation}
	if o.Kind == wire.Attach {
		e.Kind, e.Doubted = wire.Attached, errors.Is(err, errDoubted)
	}
	if err != nil {
		e.Error = short(err)
	}
	if l := m.links[o.Link]; l == nil || !l.queue(event{Event: e, order: o.name}) {
		m.dropOrder(o.name)
	}
}

// dropOrder drops one that is answered, or whose answer nobody takes. Until then it counts as one
// of mostOrders, because its socket is open.
func (m *mounter) dropOrder(order string) {
	delete(m.orders, order)
	m.set.Drop(order)
}

func short(err error) string {
	text := strings.ToValidUTF8(err.Error(), "?")
	return strings.ToValidUTF8(text[:min(len(text), 1000)], "")
}

// hello is said by the process of the pair that serves from now on.
func (m *mounter) hello(link uint64) {
	if old := m.links[m.current]; old != nil && old.number != link {
		m.set.Note(peerName(old.number), peerMeta{})
	}
	m.current = link
	m.set.Note(peerName(link), peerMeta{Current: true})
	m.countAnew()
	m.tellAll()
}
