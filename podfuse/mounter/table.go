package mounter

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"example.com/pod-info-fuse/survive/volume"
)

// table is the volumes and their connections.
type table struct {
	*base
	volumes  map[volume.ID]*client
	last     uint64            // generation
	returns  uint64            // of programs, after others that have served the same volume
	failures map[volume.ID]int // of whatever is done for a volume
}

// client is a volume that programs serve.
type client struct {
	living  *connection
	former  []*connection // oldest first: of programs that are dead, or lost, or have unmounted it and live
	history History
	busy    chan struct{} // taken by what mounts or attaches
	users   int           // who have or want that
}

// all are its connections.
func (c *client) all() []*connection {
	if c.living == nil {
		return c.former
	}
	return append(slices.Clone(c.former), c.living)
}

// lost are the connections whose descriptors were lost with a mounter before.
func (c *client) lost() (all []*connection) {
	for _, former := range c.former {
		if former.file == nil {
			all = append(all, former)
		}
	}
	return all
}

// hasNothing tells that there is nothing to tell of the volume. Somebody may be at work on it all
// the same.
func (c *client) hasNothing() bool {
	return len(c.all()) == 0 && c.history == (History{})
}

// remove removes a connection.
func (c *client) remove(gone *connection) {
	c.former = slices.DeleteFunc(slices.Clone(c.former), func(other *connection) bool { return other == gone })
	if c.living == gone {
		c.living = nil
		close(gone.over)
	}
}

// History is what status tells of a volume's programs, and of who waits for one. It is kept until
// the volume is unmounted.
type History struct {
	Programs int `json:"programs"` // that have served it
	// Since is when the last one began to serve, or died; before the first one, when the first who
	// waits for it began to. Zero: nobody has.
	Since   time.Time `json:"since"`
	Waiting int       `json:"waiting,omitempty"` // requests that wait, says the pair
}

// remember keeps that a program has begun to serve, or has died.
func (m *table) remember(id volume.ID, programs int) {
	h := m.client(id).history
	if programs > 0 && h.Programs > 0 {
		m.returns++
		m.set.Put(returnsName, m.returns, nil)
	}
	h.Programs, h.Since = h.Programs+programs, now()
	m.keepHistory(id, h)
}

// count keeps how many wait for a volume. The pair reports it once somebody has waited: 0 also says
// that somebody has.
func (m *table) count(id volume.ID, waiting int) {
	h := m.client(id).history
	if h.Waiting = waiting; h.Since.IsZero() {
		h.Since = now()
	}
	m.keepHistory(id, h)
}

// countAnew forgets who waits: another process of the pair begins to count, and the wait for a
// first program begins anew.
func (m *table) countAnew() {
	for id, c := range m.volumes {
		h := c.history
		if h.Waiting = 0; h.Programs == 0 {
			h.Since = time.Time{}
		}
		m.keepHistory(id, h)
	}
}

// now is in seconds: nobody is told more.
func now() time.Time { return time.Now().Round(time.Second) }

func (m *table) keepHistory(id volume.ID, h History) {
	name, c := historyPrefix+id.String(), m.client(id)
	before := c.history
	switch c.history = h; h {
	case before:
	case History{}:
		m.set.Drop(name)
	default:
		m.set.Put(name, h, nil)
	}
	m.tidy(id)
}

// forgetHistory ends it.
func (m *table) forgetHistory(id volume.ID) { m.keepHistory(id, History{}) }

func (m *table) resumeHistory(name string) {
	var kept History
	id, err := volume.ParseID(strings.TrimPrefix(name, historyPrefix))
	if _, good := m.set.Get(name, &kept); err != nil || !good {
		m.set.Drop(name)
		return
	}
	m.client(id).history = kept
}

// nextGeneration is larger than all before, also those of a mounter that was lost with all that
// it kept: the pair may know them.
func (m *table) nextGeneration() uint64 {
	m.last = max(m.last+1, uint64(time.Now().UnixMicro()))
	return m.last
}

// client returns a volume's entry in the table.
func (m *table) client(id volume.ID) *client {
	c := m.volumes[id]
	if c == nil {
		c = &client{busy: make(chan struct{}, 1)}
		m.volumes[id] = c
	}
	return c
}

// tidy removes a volume's entry if nothing is in it.
func (m *table) tidy(id volume.ID) {
	if c := m.volumes[id]; c != nil && c.hasNothing() && c.users == 0 {
		delete(m.volumes, id)
	}
}

func connectionName(id volume.ID, generation uint64) string {
	return connPrefix + id.String() + "/" + strconv.FormatUint(generation, 10)
}

// note keeps what has changed of a connection. It returns an error if its volume was unmounted.
func (m *table) note(c *connection, change func()) (err error) {
	m.do(func() {
		if c.isUnmounted() {
			err = errUnmounted
			return
		}
		change()
		m.set.Note(c.name(), c.connectionMeta)
		m.save(c)
	})
	return err
}

// keepConnection keeps a connection for the spare.
func (m *table) keepConnection(c *connection) {
	m.set.Put(c.name(), c.connectionMeta, c.file)
	m.save(c)
}

// save writes what there is to know of a connection to its file, for a mounter that begins without
// a set: see recover.go.
func (m *table) save(c *connection) {
	text, err := json.Marshal(c.connectionMeta)
	path := m.connectionPath(c)
	if err == nil {
		err = os.WriteFile(path+".new", text, 0o600)
	}
	if err == nil {
		err = os.Rename(path+".new", path)
	}
	if err != nil {
		m.logFailure(c.Volume, "note of its program", err)
	}
}

func (m *table) connectionPath(c *connection) string {
	return filepath.Join(m.Connections(), c.dir())
}

// isUnmounted tells whether its volume is. It is asked in a turn.
func (c *connection) isUnmounted() bool { return c.forgotten || isClosed(c.gone) }

// device returns a duplicate of a connection's descriptor, for use beside turns: in any of these
// that may be closed, and its number become another file's.
func (m *table) device(c *connection) (file *os.File, err error) {
	m.do(func() {
		if c.isUnmounted() {
			err = errUnmounted
		} else {
			file, err = duplicate(c.file)
		}
	})
	return file, err
}

var errUnmounted = errors.New("the volume was unmounted meanwhile")

// drop closes a connection.
func (m *table) drop(c *connection) {
	close(c.gone)
	if client := m.volumes[c.Volume]; client != nil {
		client.remove(c)
	}
	_ = os.Remove(m.connectionPath(c)) // before the set, or it would be a lost one
	m.set.Drop(c.name())
	m.tidy(c.Volume)
}

// addConnection makes an entry of one. Without a file, it is lost.
func (m *table) addConnection(meta connectionMeta, file *os.File) *connection {
	c := &connection{connectionMeta: meta, file: file, gone: make(chan struct{}), over: make(chan struct{}), hurry: make(chan struct{})}
	switch client := m.client(c.Volume); {
	case c.Dead, c.Left, file == nil:
		client.former = append(client.former, c)
	default:
		client.living = c
	}
	m.last = max(m.last, c.Generation)
	return c
}

// find finds the one connection of which something is so; nil: there is none.
func (m *table) find(is func(*connection) bool) (found *connection) {
	m.do(func() {
		for _, client := range m.volumes {
			for _, c := range client.all() {
				if is(c) {
					found = c
				}
			}
		}
	})
	return found
}

var errBusy = errors.New("other work on the volume does not end")

// lockVolume keeps others from mounting and attaching what a volume has.
func (m *table) lockVolume(id volume.ID, until time.Time) (release func(), err error) {
	var c *client
	m.do(func() {
		c = m.client(id)
		c.users++
	})
	leave := func() { m.do(func() { c.users--; m.tidy(id) }) }
	select {
	case c.busy <- struct{}{}:
		return func() { <-c.busy; leave() }, nil
	case <-time.After(time.Until(until)):
		leave()
		return nil, errBusy
	}
}

// logFailure logs what has failed of a volume, twenty times and then each thousandth: a pod can
// make that happen as often as it likes.
func (m *table) logFailure(id volume.ID, what string, err error) {
	if m.failures[id]++; m.failures[id] <= 20 || m.failures[id]%1000 == 0 {
		m.log("%s of volume %s: %v (failure %d)", what, id, err, m.failures[id])
	}
	if len(m.failures) > mostOrders {
		clear(m.failures)
	}
}

// living returns the connection of an order's generation, if its program serves.
func (m *table) living(o *order) (c *connection, err error) {
	m.do(func() {
		client := m.volumes[o.Volume]
		if client != nil && client.living != nil && client.living.Generation == o.Generation && client.living.Served {
			c = client.living
		} else {
			err = fmt.Errorf("generation %d does not serve", o.Generation)
		}
	})
	return c, err
}

// begun finds the connection that was made for an order; nil: none was.
func (m *table) begun(o *order) *connection {
	return m.find(func(c *connection) bool { return c.Order == o.name })
}
