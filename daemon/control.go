package daemon

import (
	"encoding/json"
	"errors"
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// The commands on the control socket. Only root can connect to it. A
// connection is one command, but for upgrade, whose client says proceed when the
// process that it started is where it shall be.
const (
	commandStatus  = "status"
	commandStop    = "stop"
	commandUpgrade = "upgrade"
	commandProceed = "proceed"
)

// command is a packet from a client.
type command struct {
	Command string
	Version string `json:",omitempty"` // of the client, with upgrade
}

// reply is a packet to a client.
type reply struct {
	Report *Report `json:",omitempty"`
	Error  string  `json:",omitempty"`
}

// Report is what the active process knows of the pair.
type Report struct {
	Active  Process  `json:"active"`
	Standby *Process `json:"standby,omitempty"` // nil: none is ready
	History
}

// request is a command, and where its reply goes.
type request struct {
	command
	conn *net.UnixConn
}

// clientTime is how long a client may take to say something.
const clientTime = 30 * time.Second

// accept accepts clients for as long as the process lives.
func (a *active) accept() {
	listener, err := net.FileListener(a.resources.Control)
	if err != nil {
		a.Log("control socket: %v", err)
		return
	}
	for {
		conn, err := listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		} else if err != nil {
			time.Sleep(100 * time.Millisecond) // out of descriptors, for example
			continue
		}
		go a.listen(conn.(*net.UnixConn))
	}
}

// listen passes on what a client says.
func (a *active) listen(conn *net.UnixConn) {
	defer conn.Close()
	for buffer := make([]byte, maxMessage); ; {
		_ = conn.SetDeadline(time.Now().Add(clientTime))
		n, err := conn.Read(buffer)
		if err != nil {
			return
		}
		var c command
		if err := json.Unmarshal(buffer[:n], &c); err != nil {
			return
		}
		a.control <- request{c, conn}
	}
}

// handle executes a command. It reports whether this process is to end.
func (a *active) handle(r request) (done bool) {
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
	default:
		r.reply(reply{Error: "command " + r.Command + " is not known"})
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

// reply sends a reply with descriptors. A client that is gone does not matter.
func (r request) reply(answer reply, descriptors ...int) {
	packet, err := json.Marshal(answer)
	if err != nil {
		panic(err) // text, numbers and times can always be encoded
	}
	var rights []byte
	if len(descriptors) > 0 {
		rights = unix.UnixRights(descriptors...)
	}
	_, _, _ = r.conn.WriteMsgUnix(packet, rights, nil)
}
