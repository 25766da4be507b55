package command

import (
	"time"

	"example.com/pod-info-fuse/flex"
	"example.com/pod-info-fuse/survive/internal/calllog"
	"example.com/pod-info-fuse/survive/internal/metrics"
)

// callOut executes a call-out of the kubelet, logs it and counts it.
func (p Program) callOut(started time.Time) error {
	i := installation{log: calllog.New(p.Program, "")} // until it is found
	find := func() (flex.Driver, error) {
		found, err := p.installation("")
		if err == nil {
			i = found
		}
		return i, err
	}
	flex.Main(find, func(o flex.Outcome) {
		took := time.Since(started)
		what := Printable(o.CallOut, 40)
		if o.Dir != "" {
			what += " " + Printable(o.Dir, 300)
		}
		message := ""
		if o.Answer.Message != "" {
			message = ": " + o.Answer.Message
		}
		if o.Unsaid != nil {
			message += "; the answer could not be printed: " + o.Unsaid.Error()
		}
		i.log.Line("%s: %s%s in %v", what, o.Answer.Status, message, took.Round(10*time.Microsecond))
		if i.Node.RunDir != "" { // it was found
			metrics.Record(i.Node.CallsFile(), o.CallOut, string(o.Answer.Status), took)
		}
	})
	return nil // not reached
}
