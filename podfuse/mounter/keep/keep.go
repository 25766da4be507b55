// Package keep has two processes hold the same descriptors, so that they outlive either. The
// owner uses them. The spare only has them, and becomes the owner when the owner has died.
//
//	owner                                        spare
//	  │ ── put NAME, meta, a descriptor ──────────> │
//	  │ ── whole ─────────────────────────────────> │ has all that there was
//	  │ ── answer ────────────────────────────────> │
//	  │ <───────────────────────────────── answer ─ │ and has read it
//	  │ ── note NAME, another meta ───────────────> │
//	  │ ── drop NAME ─────────────────────────────> │
//	  x    end-of-file                              │ is the owner from now on
//
// Nothing is answered but "answer", for an owner that wants to end. What was sent arrives although
// the sender has died: packets wait in the kernel with their descriptors, and end-of-file comes
// after them. So the owner uses a descriptor as soon as it was sent.
//
// End-of-file after whole must mean that the owner is dead. From then on, it closes its end of a
// link only after it has killed the spare at the other.
//
// Neither waits for the end of a close(2): of a socket in which somebody has sent files, it may
// take as long as these want. See [packet.CloseAside].
package keep

import (
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"example.com/pod-info-fuse/internal/packet"
)

// sendTimeout is how long the owner waits for a spare that does not read.
const sendTimeout = time.Second

const (
	put    = "put"
	whole  = "whole"
	answer = "answer"
	note   = "note"
	drop   = "drop"
)

type message struct {
	Kind string          `json:"kind"`
	Name string          `json:"name,omitempty"`
	Meta json.RawMessage `json:"meta,omitempty"`
}

type entry struct {
	meta json.RawMessage
	file *os.File // nil: only its meta is kept
}

// put is the message about an entry, with its file.
func (e entry) put(name string) (message, []*os.File) {
	m := message{put, name, e.meta}
	if e.file == nil {
		return m, nil
	}
	return m, []*os.File{e.file}
}

// Set is descriptors by name, each with what its owner has to know of it. It is used by one
// goroutine.
type Set struct {
	entries map[string]entry
	spare   *packet.Socket // nil: there is none
	kill    func()
	// Lost is told when the spare could not be told something, and was killed.
	Lost func(err error)
}

// New returns an empty set.
func New() *Set { return &Set{entries: map[string]entry{}} }

// ErrPart says that a spare was given a part of what there is, which is of no use: its owner may
// live.
var ErrPart = errors.New("the spare was not given all that there is")

// Stand is the life of a spare: it takes what the owner puts, and returns it when the owner
// has died.
func Stand(link *os.File) (*Set, error) {
	socket, err := packet.New(link)
	if err != nil {
		return nil, err
	}
	defer socket.Close()
	s := New()
	all := false
	for {
		text, files, err := socket.Receive(time.Time{})
		ended := errors.Is(err, io.EOF)
		switch {
		case isReset(err): // said once, and before what still waits to be read
			continue
		case ended && all:
			return s, nil
		case ended:
			err = ErrPart
		}
		if err != nil {
			s.Close()
			return nil, err
		}
		var m message
		if err := packet.Decode(text, &m); err != nil { // of a later version
			closeFiles(files)
			continue
		}
		switch m.Kind {
		case whole:
			all = true
		case answer:
			_ = socket.Send(sendTimeout, m) // to an owner that has died, it does not matter
		}
		s.take(m, files)
	}
}

func (s *Set) take(m message, files []*os.File) {
	switch old := s.entries[m.Name]; m.Kind {
	case put:
		closeFile(old.file)
		e := entry{meta: m.Meta}
		if len(files) > 0 {
			e.file, files = files[0], files[1:]
		}
		s.entries[m.Name] = e
	case note:
		s.entries[m.Name] = entry{m.Meta, old.file}
	case drop:
		closeFile(old.file)
		delete(s.entries, m.Name)
	}
	closeFiles(files)
}

// Put keeps a descriptor, which belongs to the set from now on, in the place of one of that
// name. The file may be nil.
func (s *Set) Put(name string, meta any, file *os.File) {
	if old := s.entries[name].file; old != file {
		closeFile(old)
	}
	e := entry{encode(meta), file}
	s.entries[name] = e
	m, files := e.put(name)
	s.send(m, files...)
}

// Note keeps another meta with a descriptor.
func (s *Set) Note(name string, meta any) {
	text := encode(meta)
	s.entries[name] = entry{text, s.entries[name].file}
	s.send(message{note, name, text})
}

// Drop closes a descriptor in both processes.
func (s *Set) Drop(name string) {
	e, there := s.entries[name]
	if !there {
		return
	}
	closeFile(e.file)
	delete(s.entries, name)
	s.send(message{Kind: drop, Name: name})
}

// Get returns a descriptor, and reads its meta. It returns false if there is none of that name,
// or its meta is not of this form.
func (s *Set) Get(name string, meta any) (*os.File, bool) {
	e, there := s.entries[name]
	if there && meta != nil {
		there = json.Unmarshal(e.meta, meta) == nil
	}
	return e.file, there
}

// Names lists the names that begin with a prefix.
func (s *Set) Names(prefix string) []string {
	names := slices.Sorted(maps.Keys(s.entries))
	return slices.DeleteFunc(names, func(name string) bool { return !strings.HasPrefix(name, prefix) })
}

// Feed makes the process at the other end of a link the spare: it is sent all that there is. It
// ends if there is an error. kill kills it for certain.
func (s *Set) Feed(link *os.File, kill func()) error {
	socket, err := packet.New(link)
	if err != nil {
		return err
	}
	s.spare, s.kill = socket, kill
	for name, e := range s.entries {
		m, files := e.put(name)
		if err = socket.Send(sendTimeout, m, files...); err != nil {
			break
		}
	}
	if err == nil {
		err = socket.Send(sendTimeout, message{Kind: whole})
	}
	if err != nil {
		s.Kill()
	}
	return err
}

// Ask asks the spare to answer. What it returns waits for that, beside the goroutine that uses the
// set: then the spare has read all that it was sent before.
func (s *Set) Ask() (answered func(limit time.Duration) error) {
	s.send(message{Kind: answer})
	socket := s.spare
	return func(limit time.Duration) error {
		if socket == nil {
			return errors.New("it has ended")
		}
		_, files, err := socket.Receive(time.Now().Add(limit))
		closeFiles(files)
		return err
	}
}

// Kill kills the spare, and forgets it.
func (s *Set) Kill() {
	if s.spare != nil {
		s.kill()
	}
	s.Forget()
}

// Forget closes the link to a spare that has died.
func (s *Set) Forget() {
	if s.spare != nil {
		s.spare.Close()
		s.spare = nil
	}
}

func (s *Set) send(m message, files ...*os.File) {
	if s.spare == nil {
		return
	}
	if err := s.spare.Send(sendTimeout, m, files...); err != nil {
		s.Kill()
		if s.Lost != nil {
			s.Lost(err)
		}
	}
}

// Close closes this process's descriptors.
func (s *Set) Close() {
	for _, e := range s.entries {
		closeFile(e.file)
	}
}

func encode(meta any) json.RawMessage {
	text, err := json.Marshal(meta)
	if err != nil {
		panic(err) // text, numbers and times can always be encoded
	}
	return text
}

func closeFile(file *os.File) {
	if file != nil {
		go packet.CloseAside(file)
	}
}

func closeFiles(files []*os.File) {
	for _, file := range files {
		closeFile(file)
	}
}

// isReset tells whether the owner died with an answer that it had not read.
func isReset(err error) bool { return errors.Is(err, unix.ECONNRESET) }
