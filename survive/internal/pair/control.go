package pair

import (
	"encoding/json"
	"time"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/internal/packet"
)

// The commands on the control socket. Only root can connect to it. A
// connection is one command, but for upgrade, whose client says proceed when the
// process that it started is where it shall be. Descriptors come with a command, and
// never with a reply: the pair may not send any.
const (
	commandStatus  = "status"
	commandStop    = "stop"
	commandUpgrade = "upgrade"
	commandProceed = "proceed"

	// commandGone is what listen says for a client that has hung up.
	commandGone = "gone"
)

// command is a packet from a client.
type command struct {
	Format  int
	Command string
	Version string `json:",omitempty"` // of the client, with upgrade
}

// reply is a packet to a client.
type reply struct {
	Format int
	Report *Report `json:",omitempty"`
	Error  string  `json:",omitempty"`
}

// request is a command of a client.
type request struct {
	command
	client any // tells it from others
	reply  func(reply)
	link   link // with upgrade: the one to the new process
}

// clientTime is how long a client may take to say something.
const clientTime = 30 * time.Second

func (s *system) control(requests chan<- request) {
	for {
		if conn, err := packet.Accept(s.Control); err == nil {
			go s.listen(conn, requests)
		} else {
			time.Sleep(100 * time.Millisecond) // out of descriptors, for example
		}
	}
}

// listen passes on a client's commands.
func (s *system) listen(conn *packet.Unpolled, requests chan<- request) {
	defer conn.Close()
	defer func() { requests <- request{command: command{Command: commandGone}, client: conn} }()
	buffer, rights := make([]byte, maxMessage), make([]byte, unix.CmsgSpace(4))
	for {
		text, files, err := conn.Receive(time.Now().Add(clientTime), buffer, rights)
		if err != nil && err != packet.ErrTooLong {
			return
		}
		r := request{client: conn, reply: func(answer reply) {
			answer.Format = format
			text, err := json.Marshal(answer)
			if err != nil {
				panic(err) // text, numbers and times can always be encoded
			}
			_ = conn.Send(text) // a client that is gone does not matter
		}}
		if err == nil {
			r.command, err = decodeCommand(text)
		}
		if err != nil {
			s.log("a command of %d bytes is not understood: %v", len(text), err)
		} else if len(files) == 1 && r.Command == commandUpgrade {
			if r.link, err = newLink(files[0], s.log); err != nil {
				r.reply(reply{Error: brief(err.Error())})
			}
		}
		packet.Close(files) // no other command has a link
		if err != nil {
			return
		}
		requests <- r
	}
}

// handle executes a command. It reports whether this process is to end.
func (a *active) handle(r request) (done bool) {
	if problem := tooNew(r.Format); problem != "" {
		r.reply(reply{Error: "the client is too new: " + problem})
		return false
	}
	switch r.Command {
	case commandStatus:
		r.reply(reply{Report: a.report()})
	case commandStop:
		a.dismiss()
		_ = a.stop() // we end, whatever it says
		r.reply(reply{})
		return true
	case commandUpgrade:
		a.beginUpgrade(r)
	case commandProceed:
		return a.proceed(r)
	case commandGone:
		a.hungUp(r.client)
	default:
		r.reply(reply{Error: brief("command " + r.Command + " is not known")})
	}
	return false
}

func (a *active) report() *Report {
	report := &Report{Active: a.self, History: a.history}
	if a.standby.ready() {
		report.Standby = a.standby.about
	}
	return report
}
