package main

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strconv"
	"time"

	"example.com/pod-info-fuse/podfuse"
	"example.com/pod-info-fuse/podfuse/mounter"
	"example.com/pod-info-fuse/podfuse/wire"
	"example.com/pod-info-fuse/survive"
	"example.com/pod-info-fuse/survive/command"
	"example.com/pod-info-fuse/survive/volume"
)

// mounterReport is the JSON of the mounter in status.
type mounterReport struct {
	mounter.Status
	Error string `json:"error,omitempty"` // why nothing is known of it
}

// sections are the driver's own of status. The mounter is asked once.
func sections(n survive.Node) []command.Section {
	now, err := client(n).Status()
	mounter, programs := mounterSection(now, err), programsSection(n, now, err)
	mounter.Metrics = mounterMetrics(now, err)
	if err == nil {
		mounter.Usage = mounterUsage(client(n).Usage(now))
	}
	return []command.Section{mounter, programs}
}

// mounterSection is the section of status on root's process.
func mounterSection(now mounter.Status, err error) command.Section {
	if err != nil {
		return command.Section{
			Name: "mounter", Value: mounterReport{Error: err.Error()},
			Lines: [][2]string{{"mounter", "not known: " + err.Error()}},
		}
	}
	line := fmt.Sprintf("version %s, process %d", now.Version, now.PID)
	if now.Spare != 0 {
		line += fmt.Sprintf(", its spare %d", now.Spare)
	} else {
		line += ", without a spare"
	}
	now.Volumes = nil // programsSection tells of them
	lines := [][2]string{{"mounter", line}}
	if !now.Linked {
		lines = append(lines, [2]string{"mounter's pair", "has not asked yet: the next call-out gives it a link"})
	}
	if now.Trouble != "" {
		lines = append(lines, [2]string{"mounter's trouble", now.Trouble})
	}
	return command.Section{Name: "mounter", Value: mounterReport{Status: now}, Lines: lines}
}

// programReport is the JSON of what is served for a client volume, in status.
type programReport struct {
	ID       string     `json:"id"`
	Name     string     `json:"name"`
	Pod      string     `json:"pod"` // namespace/name; "": the volume is not mounted
	State    wire.State `json:"state"`
	Since    time.Time  `json:"since,omitzero"`    // of waiting: since the first waits
	Waiting  int        `json:"waiting"`           // requests
	Restarts int        `json:"restarts"`          // how often a program came back
	PID      int        `json:"pid,omitempty"`     // of the program that serves
	Problem  string     `json:"problem,omitempty"` // why nothing is known of the volume
}

// notKnown is the state of a volume where the mounter does not answer.
const notKnown wire.State = "unknown"

// programsSection is the section of status on what programs serve.
func programsSection(n survive.Node, now mounter.Status, unknown error) command.Section {
	known := map[volume.ID]mounter.VolumeStatus{}
	for _, v := range now.Volumes {
		known[v.Volume] = v
	}
	all := []programReport{}
	servers := serversOf(n)
	clients, _ := n.Volumes().IDs()
	for _, id := range clients {
		all = append(all, reportOf(n, id, known[id], servers))
		delete(known, id)
	}
	for _, id := range slices.Sorted(maps.Keys(known)) { // the client volume of a server volume is not mounted
		all = append(all, reportOf(n, id, known[id], servers))
	}
	lines := [][2]string{{"programs", strconv.Itoa(len(all))}}
	for i, r := range all {
		if unknown != nil {
			r.State = notKnown
			all[i] = r
		}
		lines = append(lines, [2]string{"program of " + r.ID, r.text()})
	}
	return command.Section{Name: "programs", Value: all, Lines: lines, Metrics: programMetrics(all, unknown)}
}

// serversOf are the server volumes of a node, by the client volume that each is for; nil if one
// could not be read.
func serversOf(n survive.Node) map[volume.ID]volume.Record {
	store := podfuse.Layout{RunDir: n.RunDir}.ServerVolumes()
	servers := map[volume.ID]volume.Record{}
	ids, err := store.IDs()
	if err != nil {
		return nil
	}
	for _, id := range ids {
		server, err := store.Get(id)
		if errors.Is(err, fs.ErrNotExist) {
			continue // unmounted just now
		} else if err != nil {
			return nil
		}
		if client, err := podfuse.Client(server); err == nil {
			servers[client] = server
		}
	}
	return servers
}

// reportOf tells the state of a volume.
func reportOf(n survive.Node, id volume.ID, v mounter.VolumeStatus, servers map[volume.ID]volume.Record) programReport {
	r := programReport{ID: id.String(), State: wire.Waiting, Since: v.Since, Waiting: v.Waiting, Restarts: max(0, v.Programs-1), PID: v.PID}
	record, err := n.Volumes().Get(id)
	server, hasServer := servers[id]
	if errors.Is(err, fs.ErrNotExist) {
		r.Problem = "the pod has no volume of the name that its server volume serves"
		if a, err := podfuse.AttributesOf(server); hasServer && err == nil {
			r.Problem += fmt.Sprintf(", %q; volume %s of pod %s/%s", a.Serves, server.Name, server.PodNamespace, server.PodName) +
				podfuse.Layout{RunDir: n.RunDir}.BesideServer(server)
		}
	} else if err == nil {
		r.Name, r.Pod = record.Name, record.PodNamespace+"/"+record.PodName
		if servers != nil && !hasServer && v.Programs == 0 {
			r.Problem = "the pod has no server volume for it"
		}
	}
	wait := podfuse.DefaultWait
	if a, attributesErr := podfuse.AttributesOf(record); err == nil && attributesErr == nil {
		wait = a.Wait
	} else if err == nil {
		err = attributesErr
	}
	if err != nil && r.Problem == "" {
		r.Problem = err.Error()
	}
	switch {
	case v.Lost:
		if r.State = notKnown; r.Problem == "" {
			r.Problem = "its mounter was lost, and the program is being looked for"
		}
	case v.Served:
		r.State = wire.Served
	case !v.Since.IsZero() && time.Since(v.Since) >= wait:
		r.State = wire.Gone
	case v.Programs > 0:
		r.State = wire.Dead
	}
	return r
}

// text is the report for people.
func (r programReport) text() string {
	text := string(r.State)
	if r.State == notKnown {
		return command.Printable(text+r.whose(), 0)
	}
	if !r.Since.IsZero() {
		text += fmt.Sprintf(" for %s", time.Since(r.Since).Round(time.Second))
	}
	if r.PID != 0 {
		text += fmt.Sprintf(", process %d", r.PID)
	}
	text += fmt.Sprintf(", came back %d times, %d wait", r.Restarts, r.Waiting)
	return command.Printable(text+r.whose(), 0)
}

func (r programReport) whose() (text string) {
	if r.Pod != "" {
		text += fmt.Sprintf(", volume %s of pod %s", r.Name, r.Pod)
	}
	if r.Problem != "" {
		text += "; " + r.Problem
	}
	return text
}
