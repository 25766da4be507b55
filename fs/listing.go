package fs

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"example.com/pod-info-fuse/facts"
)

// listing is the last look at the directory of facts. A long listing takes many
// requests, which need not look again each time.
type listing struct {
	mu    sync.Mutex // guards what follows
	taken time.Time
	facts []facts.Fact // by their ids
}

// listingTime is for how long a listing goes on with the same look.
const listingTime = time.Second

// listed returns the facts by their ids. begin says that somebody begins to list,
// who must get what is there now.
func (f *FS) listed(begin bool) []facts.Fact {
	f.listing.mu.Lock()
	defer f.listing.mu.Unlock()
	if !begin && time.Since(f.listing.taken) < listingTime {
		return f.listing.facts
	}
	all, left, err := f.facts.Scan()
	if err != nil {
		all = nil // it has vanished, or we may not; status says so
	}
	slices.SortFunc(all, func(a, b facts.Fact) int { return cmp.Compare(facts.ID(a.Name), facts.ID(b.Name)) })
	f.listing.taken, f.listing.facts = time.Now(), all
	f.report(left, err)
	return all
}
