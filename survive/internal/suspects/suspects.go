// Package suspects finds out which request ends the processes that answer it.
//
// The kernel gives the requests that a dead process had read to the next one (Linux 6.9). If one of
// them is what the process died of, the next one dies of it as well, and so do all. So each worker
// notes what it answers, in a [Table] in memory that both processes have, before it begins. Memory
// that processes share keeps what one that dies has written last.
//
// The process that takes over calls [Table.Judge]. What was being answered is suspected: at most
// one of the requests is guilty, and none if somebody has killed the process. A suspect is answered
// alone, and not before there is a standby. If the process dies then, it is refused from then on;
// if not, it is innocent.
//
// A request is known by its [Subject], so that another one like it is the same suspect: it may be
// that nobody waits for the first one any more. Another version, which may have no such error, is
// given an empty table.
package suspects

import (
	"cmp"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"example.com/pod-info-fuse/internal/devfuse"
)

const (
	// MostWorkers is how many workers can note what they answer.
	MostWorkers = 4
	// mostSubjects is how many are known at a time. A new one replaces the oldest.
	mostSubjects = 32

	// RefusalTime is how long a subject is refused; the next time twice as long, and so on,
	// mostDoubled times. Then it is suspected: it may be that a disk did not answer, or that the
	// machine was overloaded.
	RefusalTime = 10 * time.Minute
	mostDoubled = 6
	// SuspicionTime is how long a subject is suspected that nobody asks about any more.
	SuspicionTime = 10 * time.Minute
	// HangTime is how long an answer is at least that a process hangs in. A standby waits for
	// longer, and an answer that takes less time goes on beside the one that hangs.
	HangTime = 4 * time.Second
)

// Subject is what requests have in common that are the same suspect.
type Subject struct {
	Node   uint64
	Opcode uint64
	Name   uint64 // the Hash of what is looked up in the root: volumes are looked up there, of all pods
}

// Operation is the name of the operation, for people.
func (s Subject) Operation() string {
	names := map[uint64]string{
		devfuse.OpLookup: "LOOKUP", devfuse.OpGetAttr: "GETATTR", devfuse.OpReadlink: "READLINK", devfuse.OpOpen: "OPEN",
		devfuse.OpRead: "READ", devfuse.OpOpenDir: "OPENDIR", devfuse.OpReadDir: "READDIR",
	}
	return cmp.Or(names[s.Opcode], "operation "+strconv.FormatUint(s.Opcode, 10))
}

// Note is what a worker is answering.
type Note struct {
	Subject
	ID        uint64 // of the request
	Begun     int64  // in nanoseconds since 1970
	answering uint64 // 1: it is
	_         [2]uint64
}

// Begin notes that an answer is begun. It costs some nanoseconds.
func (n *Note) Begin(s Subject, id uint64, now time.Time) {
	n.Subject, n.ID, n.Begun = s, id, now.UnixNano()
	atomic.StoreUint64(&n.answering, 1) // last
}

// End notes that the answer has ended.
func (n *Note) End() { atomic.StoreUint64(&n.answering, 0) }

// entry is a subject that is known.
type entry struct {
	Subject
	id     uint64 // of the request that was being answered when a process died
	deaths uint64 // 0: the entry is free; 1: it is suspected; more: refused
	since  int64
	hung   uint64 // 1: it was a process that hung
}

// Table is what the processes of a pair know. Only the one that serves changes it. Whatever a
// hostile process writes into it is one: there are neither indices nor lengths in it.
type Table struct {
	notes   [MostWorkers]Note
	entries [mostSubjects]entry
}

// Note is that of a worker.
func (t *Table) Note(worker int) *Note { return &t.notes[worker] }

// Verdict is what is known of a subject.
type Verdict int

const (
	Innocent  Verdict = iota
	Suspected         // to be answered alone
	Refused
)

// Hash is the same in each process (FNV-1a).
func Hash(text []byte) uint64 {
	const offset, prime = 14695981039346656037, 1099511628211
	hash := uint64(offset)
	for _, b := range text {
		hash = (hash ^ uint64(b)) * prime
	}
	return hash
}

// Anybody tells whether any subject is suspected or refused.
func (t *Table) Anybody() bool {
	for i := range t.entries {
		if t.entries[i].deaths != 0 {
			return true
		}
	}
	return false
}

// Subjects calls a function with each that is suspected or refused.
func (t *Table) Subjects(f func(Subject)) {
	for i := range t.entries {
		if e := &t.entries[i]; e.deaths != 0 {
			f(e.Subject)
		}
	}
}

// Look tells what is known of a subject, and whether it is suspected because a process hung.
func (t *Table) Look(s Subject, now time.Time) (v Verdict, hung bool) {
	e := t.find(s)
	switch age := t.age(e, now); {
	case e == nil:
		return Innocent, false
	case e.deaths > 1 && age < e.refusal():
		return Refused, false
	case e.deaths == 1 && age >= SuspicionTime:
		*e = entry{}
		return Innocent, false
	}
	return Suspected, e.hung != 0
}

// Acquit forgets a subject that was answered. Where the kernel hands the dead process's request out
// again, only its answer acquits: another one of the subject may not have what the process died of.
func (t *Table) Acquit(s Subject, id uint64, comesAgain bool) {
	if e := t.find(s); e != nil && (e.id == id || !comesAgain || e.id == 0) {
		*e = entry{}
	}
}

// Gone says that nobody waits for a request any more. If that is the one which was being answered
// at a death, it does not come again, and any other one of the subject that is answered acquits.
func (t *Table) Gone(s Subject, id uint64) {
	if e := t.find(s); e != nil && e.id == id {
		e.id = 0
	}
}

// Judge is called by a process that takes over from one that is dead, or hung, and returns the
// subjects that are refused from now on.
func (t *Table) Judge(hung bool, now time.Time) (refused []Subject) {
	var answered []Note // a subject once
	for i := range t.notes {
		n := &t.notes[i]
		was := atomic.SwapUint64(&n.answering, 0) != 0 && (!hung || now.Sub(time.Unix(0, n.Begun)) >= HangTime)
		same := func(other Note) bool { return other.Subject == n.Subject }
		if was && !slices.ContainsFunc(answered, same) {
			answered = append(answered, *n)
		}
	}
	for _, n := range answered {
		is := entry{Subject: n.Subject, id: n.ID, deaths: 1, since: now.UnixNano()}
		if hung {
			is.hung = 1
		}
		e := t.find(n.Subject)
		switch {
		case e == nil:
			e = t.free()
		case hung || len(answered) == 1: // else it may be what was answered beside it
			is.deaths = e.deaths + 1
			refused = append(refused, n.Subject)
		case e.deaths > 1: // it was refused before, and is still suspected
			is.deaths, is.since = e.deaths, e.since
		}
		*e = is
	}
	return refused
}

// refusal is how long the subject is refused.
func (e *entry) refusal() time.Duration {
	return RefusalTime << min(e.deaths-2, mostDoubled)
}

func (t *Table) find(s Subject) *entry {
	for i := range t.entries {
		if e := &t.entries[i]; e.deaths != 0 && e.Subject == s {
			return e
		}
	}
	return nil
}

// free returns an entry that is free, or else the oldest one, freed.
func (t *Table) free() *entry {
	oldest := &t.entries[0]
	for i := range t.entries {
		e := &t.entries[i]
		if e.deaths == 0 {
			return e
		}
		if e.since < oldest.since {
			oldest = e
		}
	}
	*oldest = entry{}
	return oldest
}

func (t *Table) age(e *entry, now time.Time) time.Duration {
	if e == nil {
		return 0
	}
	return now.Sub(time.Unix(0, e.since)).Abs()
}
