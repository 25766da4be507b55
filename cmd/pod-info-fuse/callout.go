package main

import (
	"os"
	"time"

	"example.com/pod-info-fuse/flex"
	"example.com/pod-info-fuse/metrics"
)

// callOut executes a call-out of the kubelet and logs it.
func callOut(args []string, started time.Time) int {
	stdout, err := flex.Quiet()
	if err != nil {
		stdout = os.Stdout
	}
	d, log, err := setUp("")
	answer := flex.Answer{Status: flex.Failure}
	if err != nil {
		answer.Message = err.Error()
	} else {
		answer = flex.Call(d, args)
	}
	status := flex.Print(stdout, answer)
	took := time.Since(started)
	log.Line("%s: %s%s in %v", subject(args), answer.Status, reason(answer), took.Round(10*time.Microsecond))
	if err == nil {
		metrics.Record(d.Node.CallsFile(), args[0], string(answer.Status), took)
	}
	return status
}

// subject is what a log line is about: the call-out and its directory. The
// other arguments may hold secrets.
func subject(args []string) string {
	const longest = 300
	subject := printable(args[0], 40)
	if len(args) > 1 && (args[0] == "mount" || args[0] == "unmount") {
		subject += " " + printable(args[1], longest)
	}
	return subject
}

func reason(answer flex.Answer) string {
	if answer.Message == "" {
		return ""
	}
	return ": " + answer.Message
}
