package suspects

import (
	"slices"
	"testing"
	"time"
)

const read, lookup = 15, 1

func file(node uint64) Subject { return Subject{Node: node, Opcode: read} }

// death is the end of a process that answers requests, each with its node for an id.
type death struct {
	answers []Subject
	hung    bool
	took    time.Duration // the answers, until then
}

// pair is the life of a pair: deaths, and what was answered alone in between.
type pair struct {
	*Table
	now time.Time
}

func (p *pair) dies(d death) (refused []Subject) {
	for i, s := range d.answers {
		p.Note(i).Begin(s, s.Node, p.now)
	}
	p.now = p.now.Add(d.took)
	return p.Judge(d.hung, p.now)
}

func TestWhoIsRefused(t *testing.T) {
	guilty, innocent := file(1), file(2)
	look := func(p *pair, s Subject) Verdict { v, _ := p.Look(s, p.now); return v }
	for _, row := range []struct {
		name             string
		happens          func(p *pair) (refused []Subject)
		guilty, innocent Verdict
	}{
		{"a death", func(p *pair) []Subject { return p.dies(death{answers: []Subject{guilty}}) }, Suspected, Innocent},
		{"a death while two are answered", func(p *pair) []Subject {
			return p.dies(death{answers: []Subject{guilty, innocent}})
		}, Suspected, Suspected},
		{"a death while nothing is answered", func(p *pair) []Subject { return p.dies(death{}) }, Innocent, Innocent},
		{"two deaths", func(p *pair) []Subject {
			p.dies(death{answers: []Subject{guilty, innocent}})
			return p.dies(death{answers: []Subject{guilty}})
		}, Refused, Suspected},
		{"two deaths, and others are answered beside it at both", func(p *pair) []Subject {
			p.dies(death{answers: []Subject{guilty, innocent}})
			return p.dies(death{answers: []Subject{guilty, innocent}})
		}, Suspected, Suspected},
		{"two workers answer the same at the first death", func(p *pair) []Subject {
			return p.dies(death{answers: []Subject{guilty, guilty}})
		}, Suspected, Innocent},
		{"one that is answered is innocent", func(p *pair) []Subject {
			p.dies(death{answers: []Subject{guilty, innocent}})
			p.Acquit(innocent, innocent.Node, true)
			return p.dies(death{answers: []Subject{guilty}})
		}, Refused, Innocent},
		{"another such request is answered", func(p *pair) []Subject {
			p.dies(death{answers: []Subject{guilty}})
			p.Acquit(guilty, 77, true)
			return nil
		}, Suspected, Innocent},
		{"another such request is answered, where none comes again", func(p *pair) []Subject {
			p.dies(death{answers: []Subject{guilty}})
			p.Acquit(guilty, 77, false)
			return nil
		}, Innocent, Innocent},
		{"its reader has gone, and another such request is answered", func(p *pair) []Subject {
			p.dies(death{answers: []Subject{guilty}})
			p.Gone(guilty, guilty.Node)
			p.Acquit(guilty, 77, true)
			return nil
		}, Innocent, Innocent},
		{"another reader has gone, and another such request is answered", func(p *pair) []Subject {
			p.dies(death{answers: []Subject{guilty}})
			p.Gone(guilty, 78)
			p.Acquit(guilty, 77, true)
			return nil
		}, Suspected, Innocent},
		{"a hang, and others are answered beside it", func(p *pair) []Subject {
			p.Note(0).Begin(guilty, 1, p.now)
			p.now = p.now.Add(5 * time.Second)
			return p.dies(death{answers: nil, hung: true})
		}, Suspected, Innocent},
		{"two hangs", func(p *pair) []Subject {
			p.dies(death{answers: []Subject{guilty}, hung: true, took: 5 * time.Second})
			p.Note(1).Begin(guilty, 1, p.now)
			p.now = p.now.Add(4900 * time.Millisecond)
			return p.dies(death{answers: []Subject{innocent}, hung: true, took: 100 * time.Millisecond})
		}, Refused, Innocent},
		{"nobody asks any more", func(p *pair) []Subject {
			p.dies(death{answers: []Subject{guilty}})
			p.now = p.now.Add(SuspicionTime)
			return nil
		}, Innocent, Innocent},
		{"it was refused for long, and is suspected", func(p *pair) []Subject {
			p.dies(death{answers: []Subject{guilty}})
			p.dies(death{answers: []Subject{guilty}})
			p.now = p.now.Add(RefusalTime)
			return []Subject{}
		}, Suspected, Innocent},
		{"and it is no other", func(p *pair) []Subject {
			p.dies(death{answers: []Subject{guilty}})
			p.dies(death{answers: []Subject{guilty}})
			p.now = p.now.Add(RefusalTime)
			return p.dies(death{answers: []Subject{guilty}})
		}, Refused, Innocent},
		{"it was refused twice, for longer", func(p *pair) []Subject {
			p.dies(death{answers: []Subject{guilty}})
			p.dies(death{answers: []Subject{guilty}})
			p.now = p.now.Add(RefusalTime)
			refused := p.dies(death{answers: []Subject{guilty}})
			p.now = p.now.Add(2*RefusalTime - 1)
			return refused
		}, Refused, Innocent},
		{"it was refused, and others are answered beside it at the next death", func(p *pair) []Subject {
			p.dies(death{answers: []Subject{guilty}})
			p.dies(death{answers: []Subject{guilty}})
			p.now = p.now.Add(RefusalTime)
			p.dies(death{answers: []Subject{guilty, innocent}})
			refused := p.dies(death{answers: []Subject{guilty}})
			p.now = p.now.Add(2*RefusalTime - 1)
			return refused
		}, Refused, Innocent},
		{"it was refused often", func(p *pair) []Subject {
			for range 50 {
				p.dies(death{answers: []Subject{guilty}})
			}
			p.now = p.now.Add(RefusalTime << mostDoubled)
			return nil
		}, Suspected, Innocent},
	} {
		t.Run(row.name, func(t *testing.T) {
			p := &pair{new(Table), time.Unix(1e9, 0)}
			refused := row.happens(p)
			if got := look(p, guilty); got != row.guilty {
				t.Errorf("the guilty one is %v, want %v", got, row.guilty)
			}
			if got := look(p, innocent); got != row.innocent {
				t.Errorf("the innocent one is %v, want %v", got, row.innocent)
			}
			if (row.guilty == Refused) != slices.Contains(refused, guilty) || slices.Contains(refused, innocent) {
				t.Errorf("refused %v", refused)
			}
			if p.Anybody() != (row.guilty != Innocent || row.innocent != Innocent) {
				t.Errorf("anybody: %v", p.Anybody())
			}
			if got := look(p, Subject{Node: 1, Opcode: lookup}); got != Innocent {
				t.Errorf("another operation is %v", got)
			}
		})
	}
}

// However many are suspected, the latest are.
func TestManySuspects(t *testing.T) {
	p := &pair{new(Table), time.Unix(1e9, 0)}
	for node := range uint64(10 * mostSubjects) {
		p.now = p.now.Add(time.Second)
		p.dies(death{answers: []Subject{file(node)}})
		if v, _ := p.Look(file(node), p.now); v != Suspected {
			t.Fatalf("%d is %v", node, v)
		}
	}
	count := 0
	p.Subjects(func(Subject) { count++ })
	if count != mostSubjects {
		t.Errorf("%d are known", count)
	}
}
