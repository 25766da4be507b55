package pair

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/internal/packet"
)

// The kinds of message on a link; the package comment shows their order.
const (
	ready    = "ready"
	standBy  = "standBy"
	ping     = "ping"
	pong     = "pong"
	takeOver = "takeOver"
	serving  = "serving"
	leave    = "leave"  // to a standby: exit
	broken   = "broken" // in the place of ready: why it cannot serve, or which format is too new
)

// format is the format of the packets between the processes of a pair, and on the control
// socket. A packet has the format that its receiver must know to understand it: a version
// that knows a newer one speaks as the other end does. A packet of a newer format is refused,
// and so is an upgrade or a downgrade, before the old pair hands over.
const format = 1

// tooNew says that a packet is of a newer format; "": it is not.
func tooNew(packet int) string {
	if packet <= format {
		return ""
	}
	return fmt.Sprintf("it speaks format %d of the pair's protocol, and format %d is the newest that is known here", packet, format)
}

// message is a packet on a link. One that decode has returned has the parts of its kind.
type message struct {
	Kind    string
	Format  int      `json:",omitempty"` // signs of life have none: they never change
	Process *Process `json:",omitempty"` // with ready; its PID is positive
	History *History `json:",omitempty"` // with standBy
	Problem string   `json:",omitempty"` // with broken; see brief
}

// The signs of life are exchanged for as long as the pair lives. They were encoded
// beforehand, so that a standby makes no garbage.
var (
	pingPacket = []byte(`{"Kind":"ping"}`)
	pongPacket = []byte(`{"Kind":"pong"}`)
)

func (m message) encode() []byte {
	switch m.Kind {
	case ping:
		return pingPacket
	case pong:
		return pongPacket
	}
	other := m // m itself is not to be on the heap
	other.Format = format
	packet, err := json.Marshal(other)
	if err != nil {
		panic(err) // text, numbers and times can always be encoded
	}
	return packet
}

// decode returns the message in a packet. One of a newer format, or without a part that its kind
// must have, is returned as broken, so that the receiver need not wait for the right one.
func decode(packet []byte) (m message, err error) {
	switch {
	case bytes.Equal(packet, pingPacket):
		return message{Kind: ping}, nil
	case bytes.Equal(packet, pongPacket):
		return message{Kind: pong}, nil
	}
	var other message // m itself is not to be on the heap
	err = json.Unmarshal(packet, &other)
	if problem := tooNew(other.Format); problem != "" {
		return message{Kind: broken, Problem: problem}, nil
	}
	if err != nil {
		return message{}, err
	}
	switch other.Kind {
	case ready:
		if other.Process == nil || other.Process.PID <= 0 {
			return message{Kind: broken, Problem: "it says ready, and not which process it is"}, nil
		}
	case standBy:
		if other.History == nil {
			return message{Kind: broken, Problem: "it says standBy, and not what was before"}, nil
		}
	case ping, pong, takeOver, serving, leave, broken:
	default:
		return message{}, errors.New("its kind is not known")
	}
	return other, nil
}

// decodeCommand returns the command in a packet. One of a newer format is told by its Format alone.
func decodeCommand(packet []byte) (c command, err error) {
	if err = json.Unmarshal(packet, &c); tooNew(c.Format) != "" {
		return command{Format: c.Format}, nil
	} else if err != nil {
		return command{}, err
	}
	return c, nil
}

// decodeReply returns the reply in a packet, or a [Refusal].
func decodeReply(packet []byte) (answer reply, err error) {
	err = json.Unmarshal(packet, &answer)
	switch problem := tooNew(answer.Format); {
	case problem != "":
		return reply{}, Refusal("the pair is too new: " + problem)
	case err != nil:
		return reply{}, Refusal("the answer is not understood: " + err.Error())
	case answer.Error != "":
		return reply{}, Refusal(answer.Error)
	}
	return answer, nil
}

// link is one end of a link.
type link interface {
	// inbox has the messages from the other end. It is closed at end-of-file.
	inbox() <-chan message
	// send does not wait. A peer that is gone or does not read gets no message.
	send(message)
	// close ends the link. The messages that nobody read are dropped.
	close()
}

// socket is a link over a socket.
type socket struct {
	conn     *packet.Unpolled
	log      Logger
	messages chan message
}

// Logger is told what happens, in the manner of fmt.Printf. It must not wait.
type Logger func(format string, args ...any)

// maxMessage is the most bytes of a packet. The kernel cuts what is longer than the
// buffer that it is read into.
const maxMessage = 4096

// brief cuts a text, such as an error with a path, so that it fits into a packet even if JSON
// takes six bytes for each of its own.
func brief(text string) string {
	const longest = 512
	if len(text) <= longest {
		return text
	}
	return strings.ToValidUTF8(text[:longest], "") + "..."
}

// newLink takes over a socket and begins to read messages.
func newLink(end *os.File, log Logger) (*socket, error) {
	defer end.Close() // conn has a duplicate
	conn, err := packet.NewUnpolled(end)
	if err != nil {
		return nil, fmt.Errorf("the link: %w", err)
	}
	l := &socket{conn: conn, log: log, messages: make(chan message)}
	go l.read()
	return l, nil
}

// linkPair returns our end of a new link, and the other one.
func linkPair(log Logger) (*socket, *os.File, error) {
	ours, theirs, err := packet.Pair()
	if err != nil {
		return nil, nil, err
	}
	l, err := newLink(ours, log)
	if err != nil {
		theirs.Close()
		return nil, nil, err
	}
	return l, theirs, nil
}

func (l *socket) inbox() <-chan message { return l.messages }

func (l *socket) read() {
	defer close(l.messages)
	defer l.conn.Close()
	for buffer := make([]byte, maxMessage); ; {
		text, _, err := l.conn.Receive(time.Time{}, buffer, nil)
		var m message
		if err == nil {
			m, err = decode(text)
		} else if err != packet.ErrTooLong {
			return // end-of-file, or shut by us
		}
		if err != nil {
			l.log("a message of %d bytes is lost: %v: %.100q", len(text), err, text)
			continue
		}
		l.messages <- m
	}
}

// send sends a message. The usual error means that the other end is gone, which its end-of-file
// tells as well, or that it does not read: its queue has room for some hundred messages, and is
// full only when it hangs, or sends ping after ping. So there is one attempt, which does not wait.
func (l *socket) send(m message) {
	text := m.encode()
	err := error(unix.EMSGSIZE)
	if len(text) <= maxMessage {
		err = l.conn.Send(text)
	}
	if errors.Is(err, unix.EMSGSIZE) {
		l.log("send %s, %d bytes: %v", m.Kind, len(text), err)
	}
}

func (l *socket) close() {
	l.conn.Shut()
	go func() {
		for range l.messages {
		}
	}()
}
