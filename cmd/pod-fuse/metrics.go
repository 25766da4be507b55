package main

import (
	"strings"
	"time"

	"example.com/pod-info-fuse/internal/proc"
	"example.com/pod-info-fuse/podfuse/mounter"
	"example.com/pod-info-fuse/podfuse/wire"
	"example.com/pod-info-fuse/survive"
	"example.com/pod-info-fuse/survive/command"
)

// Everybody may see the metrics who can reach the installer's port, and pods come and go: so they
// name no pod and no volume. Status does.

// mounterMetrics tell of the mounter; unknown says why it does not answer.
func mounterMetrics(now mounter.Status, unknown error) []command.Metric {
	up := gauge("mounter_up", "Whether the mounter answers. Before the first mount, none runs, and it is 0.", truth(unknown == nil))
	if unknown != nil {
		return []command.Metric{up}
	}
	info := gauge("mounter_info", "The version of the mounter.", 1)
	info.Samples[0].Labels = []string{"version", now.Version}
	returns := gauge("program_returns_total", "Programs that began to serve a volume which another one had served before.", float64(now.Returns))
	returns.Kind = "counter"
	return []command.Metric{
		up, info, returns,
		gauge("mounter_spare", "Whether the mounter has a spare.", truth(now.Spare != 0)),
		gauge("mounter_linked", "Whether the pair is linked to the mounter.", truth(now.Linked)),
		gauge("mounter_trouble", "Whether the mounter cannot be asked by pods.", truth(now.Trouble != "")),
	}
}

// mounterUsage is that of the processes which are known.
func mounterUsage(mounter, spare *proc.Usage) (all []command.Usage) {
	if mounter != nil {
		all = append(all, command.Usage{Role: "mounter", Usage: survive.Usage(*mounter)})
	}
	if spare != nil {
		all = append(all, command.Usage{Role: "spare", Usage: survive.Usage(*spare)})
	}
	return all
}

// programMetrics tell of what programs serve; nothing, where it is not known.
func programMetrics(all []programReport, unknown error) []command.Metric {
	if unknown != nil {
		return nil
	}
	count, waiting, since := map[wire.State]int{}, 0, time.Time{}
	for _, r := range all {
		count[r.State]++
		waiting += r.Waiting
		if r.State != wire.Served && !r.Since.IsZero() && (since.IsZero() || r.Since.Before(since)) {
			since = r.Since
		}
	}
	states := command.Metric{Name: "programs", Kind: "gauge", Help: "Client volumes, by the state of their program."}
	for _, state := range []wire.State{wire.Waiting, wire.Served, wire.Dead, wire.Gone} {
		states.Samples = append(states.Samples, command.Sample{Value: float64(count[state]), Labels: []string{"state", strings.ReplaceAll(string(state), " ", "_")}})
	}
	outage := gauge("outage_start_timestamp_seconds", "When the oldest outage began that lasts; no sample: there is none.", float64(since.Unix()))
	if since.IsZero() {
		outage.Samples = nil
	}
	return []command.Metric{states, outage, gauge("waiting_requests", "Requests that wait for a program.", float64(waiting))}
}

func gauge(name, help string, value float64) command.Metric {
	return command.Metric{Name: name, Kind: "gauge", Help: help, Samples: []command.Sample{{Value: value}}}
}

func truth(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
