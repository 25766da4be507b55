package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"example.com/pod-info-fuse/e2e/internal/steady"
)

// A reader is a container with a load, and what it has told so far.
type reader struct {
	*container

	mu   sync.Mutex // guards what follows
	part []byte
	last seen
	slow []slow
	beat []time.Duration // of each line, how long the last pulse took
	took *steady.Times   // nil: nobody asks
}

// startReader starts a load in a container of its own.
func (p *pod) startReader(s settings, one program, mounts []volumeMount, roots string) (*reader, error) {
	r := new(reader)
	var err error
	r.container, err = p.start("app", []string{"/podchaos", "load", "--roots", roots, "--threads", strconv.Itoa(s.threads),
		"--links=" + strconv.FormatBool(one.links), "--writes=" + strconv.FormatBool(one.writes), "--pause", s.pause.String()}, mounts, (*readerOutput)(r))
	return r, err
}

// readerOutput takes the lines of a load.
type readerOutput reader

func (r *readerOutput) Write(text []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.part = append(r.part, text...)
	for {
		line, rest, whole := bytes.Cut(r.part, []byte("\n"))
		if !whole {
			return len(text), nil
		}
		r.part = rest
		var s seen
		if err := json.Unmarshal(line, &s); err != nil {
			return 0, err
		}
		r.slow = append(r.slow, s.Slow...)
		if s.Beat > 0 {
			r.beat = append(r.beat, time.Duration(s.Beat))
		}
		r.took.Add(s.Took...)
		r.last = s
	}
}

// time has somebody take down how long reads take.
func (r *reader) time(took *steady.Times) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.took = took
}

func (r *reader) seen() seen {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last
}

// beats are the times that observed pulses took.
func (r *reader) beats() []time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.beat)
}

// awaitProgress waits until every operation that was under way at a time has ended, and others
// after it.
func (r *reader) awaitProgress(ctx context.Context, since int64) error {
	before := -1
	return await(ctx, stepTimeout, func() error {
		select {
		case <-r.left:
			return fmt.Errorf("the reader: %w: %s", errEnded, r.said())
		default:
		}
		s := r.seen()
		if s.Oldest <= since {
			return fmt.Errorf("the reader is held for %v by %s", time.Duration(now()-s.Oldest), s.Doing)
		}
		if before < 0 {
			before = s.Operations
		}
		if s.Operations < before+50 {
			return fmt.Errorf("the reader makes no progress")
		}
		return nil
	})
}

// outage is the time from a program's end until one has answered again, which was before a time, 0
// if nobody knows; and the longest that an operation took meanwhile, which has to do with the
// program, too.
func (r *reader) outage(from, to int64) (until, longest time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, one := range r.slow {
		if one.To < from || one.From > to {
			continue
		}
		longest = max(longest, time.Duration(one.To-max(one.From, from)))
		// The pulse was held in that moment, or soon after it. One that has ended as soon was
		// answered before.
		soon := from + int64(soonest)
		if one.Name == pulse && one.From < soon && one.To > soon {
			until = time.Duration(one.To - from)
		}
	}
	return until, longest
}

// stop ends the load, which tells the rest.
func (r *reader) stop() (seen, error) {
	err := r.end(stepTimeout + 5*time.Second)
	s := r.seen()
	if err == nil && !s.Last {
		err = fmt.Errorf("a thread of the reader hangs for %v: %s", time.Duration(s.Now-s.Oldest), s.Doing)
	}
	return s, err
}
