package fs

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/hanwen/go-fuse/v2/fuse"

	"example.com/pod-info-fuse/internal/facts"
	"example.com/pod-info-fuse/survive/volume"
)

// look is the last look at the directory of facts. Looking at a full directory takes tens of
// milliseconds, in which other requests wait. So listings share the look while the directory has
// not changed.
type look struct {
	mu      sync.Mutex // guards what follows
	began   time.Time
	changed time.Time    // the directory, before
	facts   []facts.Fact // by their ids; none, if the directory cannot be listed
	told    []string     // problems
}

const (
	// lookInterval is how long a listing may use one look. A long listing takes many requests,
	// which go on with the same one. A change in a file, which says nothing of its directory, is
	// seen then.
	lookInterval = 5 * time.Second
	// timeStep is longer than what may be between two times that a file system gives its files,
	// which some count in seconds: a directory that has changed since then may have changed again.
	timeStep = 2 * time.Second
	// maxTold is how many problems of a look are reported.
	maxTold = 100
)

// listFacts lists the operator's facts, after the other files and by their ids:
// one that comes or goes during a listing moves no other.
func (f *FS) listFacts(offset uint64, out *fuse.DirEntryList) {
	const first = volume.FirstOffset + math.MaxUint8 // the position of the last kind that can be
	all := f.lookAtFacts(offset <= first)
	next, _ := slices.BinarySearchFunc(all, offset, func(fact facts.Fact, offset uint64) int {
		return cmp.Compare(first+fact.ID, offset)
	})
	for _, fact := range all[next:] {
		e := fuse.DirEntry{Name: factPrefix + fact.Name, Mode: regular, Ino: factIno(fact), Off: first + fact.ID + 1}
		if !out.AddDirEntry(e) {
			return
		}
	}
}

// lookAtFacts returns the facts that there are. fresh says that each must be there now;
// otherwise, a listing goes on.
func (f *FS) lookAtFacts(fresh bool) []facts.Fact {
	if f.facts.File == nil {
		return nil
	}
	l := &f.look
	l.mu.Lock()
	defer l.mu.Unlock()
	began, changed := time.Now(), f.facts.Changed()
	if began.Sub(l.began) < lookInterval && (!fresh || changed.Equal(l.changed) && l.began.Sub(changed) > timeStep) {
		return l.facts
	}
	all, left, err := f.facts.Scan()
	slices.SortFunc(all, func(a, b facts.Fact) int { return cmp.Compare(a.ID, b.ID) })
	l.began, l.changed, l.facts = began, changed, all
	l.tell(err, left, f.report)
	return l.facts
}

// tell reports what is left out, and was not at the last look.
func (l *look) tell(err error, left []facts.LeftOut, report func(problem string)) {
	var problems []string
	if err != nil {
		problems = append(problems, err.Error())
	}
	for _, left := range left {
		problems = append(problems, fmt.Sprintf("fact %q is left out: %s", left.Name, left.Reason))
	}
	for _, problem := range problems[:min(len(problems), maxTold)] {
		if !slices.Contains(l.told, problem) {
			report(problem)
		}
	}
	l.told = problems
}
