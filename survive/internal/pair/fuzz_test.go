package pair

import (
	"bytes"
	"errors"
	"os"
	"testing"
)

// stub is the system of a process that a fuzz test sends packets to: it has all locks, and starts
// nothing.
type stub struct{}

func (stub) take(int64) bool                { return true }
func (stub) release(int64)                  {}
func (stub) holder(int64) Holder            { return Holder{} }
func (stub) kill(int)                       {}
func (stub) spawn() (link, func(), error)   { return nil, nil, errors.ErrUnsupported }
func (stub) control(chan<- request)         {}
func (stub) awake()                         {}
func (stub) Serve() error                   { return nil }
func (stub) Stop()                          {}
func (stub) Probe() bool                    { return false }
func (stub) Recover() error                 { return nil }
func (stub) SetStandby(bool)                {}
func (stub) Close()                         {}
func (s stub) open(int) (Service, error)    { return s, nil }
func (stub) log(format string, args ...any) {}

// heard is a link from which all messages have come.
type heard chan message

func (h heard) inbox() <-chan message { return h }
func (heard) send(m message)          { m.encode() }
func (heard) close()                  {}

// hear returns a link on which packets have come, and then its end.
func hear(packets ...[]byte) heard {
	h := make(heard, len(packets))
	for _, packet := range packets {
		if m, err := decode(packet); err == nil {
			h <- m
		}
	}
	close(h)
	return h
}

func stubbed(starter link) *process {
	s := stub{}
	return &process{
		Config:  Config{Version: "1.0", Open: s.open, LostStandby: func(bool) {}, Log: s.log},
		env:     s,
		starter: starter, terminate: make(chan os.Signal),
	}
}

func serves() *active {
	served := make(chan error, 100)
	for range cap(served) {
		served <- nil
	}
	return &active{process: stubbed(hear()), service: stub{}, served: served, alive: make(chan struct{}, 1)}
}

// Whatever packets come on a link, one a line, they end nobody: neither a process that stands by,
// nor one that serves, to which its standby or a new version speaks.
func FuzzMessage(f *testing.F) {
	for _, seed := range []string{
		"{\"Kind\":\"ready\",\"Format\":1,\"Process\":{\"pid\":7,\"version\":\"1.0\"}}\n{\"Kind\":\"ping\"}\n{\"Kind\":\"serving\",\"Format\":1}",
		"{\"Kind\":\"standBy\",\"Format\":1,\"History\":{\"takeovers\":1}}\n{\"Kind\":\"pong\"}\n{\"Kind\":\"takeOver\",\"Format\":1}",
		"{\"Kind\":\"ready\"}\n{\"Kind\":\"ready\",\"Process\":null}", "{\"Kind\":\"standBy\"}\n{\"Kind\":\"takeOver\"}",
		"{\"Kind\":\"ready\",\"Process\":{\"pid\":-1}}", "{\"Kind\":\"broken\",\"Problem\":\"x\"}", "{\"Kind\":\"leave\"}", "{\"Kind\":\"ready\",\"Format\":1000000}",
		"null\n{}\n[]\n1\n\"ready\"\n{\"Kind\":", "{\"Kind\":\"serving\"}\n{\"Kind\":\"serving\"}",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, packets []byte) {
		all := bytes.Split(packets, []byte("\n"))
		stubbed(hear(all...)).standBy()
		for _, adopted := range []bool{true, false} {
			a, b := serves(), serves()
			a.standby = newChild(hear(), nil)
			if b.next = newChild(hear(), nil); adopted {
				a.standby.adopt(Process{PID: 7}, a.history)
			}
			b.upgrade = upgrade{client: request{reply: func(reply) {}}, proceed: adopted}
			for m := range hear(all...) {
				if m.Kind == ready && m.Process.PID <= 0 {
					t.Errorf("it believes in process %d", m.Process.PID)
				}
				if a.standby != nil && a.fromStandby(m, true) {
					t.Errorf("%+v of a standby ends the process that serves", m)
				}
				if b.next != nil {
					b.fromNext(m, true)
				}
			}
		}
		_ = newChild(hear(all...), nil).introduce(func() error { return nil })
	})
}

// Whatever packets come on the control socket, one a line, they end neither the process that serves
// nor the call-out.
func FuzzCommand(f *testing.F) {
	for _, seed := range []string{
		"{\"Format\":1,\"Command\":\"status\"}\n{\"Format\":1,\"Command\":\"stop\"}", "{\"Format\":1,\"Command\":\"upgrade\",\"Version\":\"1.1\"}\n{\"Format\":1,\"Command\":\"proceed\"}",
		"{\"Command\":\"gone\"}\n{\"Command\":\"proceed\"}\n{}", "{\"Format\":1000000,\"Command\":\"stop\"}", "null\n[]\n\"stop\"\n{\"Command\":1}\n{\"Command\":",
		"{\"Format\":1,\"Report\":{\"active\":{\"pid\":7},\"standby\":null,\"last\":null}}", "{\"Format\":1,\"Error\":\"x\"}", "{\"Format\":2,\"Report\":7}", "{\"Report\":null}",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, packets []byte) {
		a := serves()
		for packet := range bytes.SplitSeq(packets, []byte("\n")) {
			c, err := decodeCommand(packet)
			if err != nil {
				continue
			}
			answered := 0
			r := request{command: c, client: t, reply: func(reply) { answered++ }}
			if c.Command == commandUpgrade && len(packet)%2 == 0 {
				r.link = hear([]byte(`{"Kind":"ready","Process":{"pid":7}}`))
			}
			if done := a.handle(r); done && c.Command != commandStop && c.Command != commandProceed {
				t.Errorf("%+v ends the process", c)
			}
			if answered == 0 && c.Command != commandGone && c.Command != commandProceed {
				t.Errorf("%+v has no answer", c)
			}
			if answer, err := decodeReply(packet); err != nil && !errors.As(err, new(Refusal)) || err == nil && answer.Error != "" {
				t.Errorf("%q is taken for %+v, %v", packet, answer, err)
			}
		}
	})
}
