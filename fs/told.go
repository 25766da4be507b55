package fs

import (
	"fmt"
	"sync"

	"example.com/pod-info-fuse/facts"
)

// told is what was reported of the facts, so that it is reported once.
type told struct {
	mu       sync.Mutex // guards what follows
	problems map[string]bool
}

// maxTold is how many problems are reported between two looks at which there are
// none of them.
const maxTold = 100

// report tells what is left out, and why.
func (f *FS) report(left []facts.LeftOut, err error) {
	if len(left) == 0 && err == nil {
		f.told.mu.Lock()
		f.told.problems = nil
		f.told.mu.Unlock()
		return
	}
	if err != nil {
		f.reportOnce(err.Error())
	}
	for _, l := range left {
		f.reportOnce(fmt.Sprintf("fact %q is left out: %s", l.Name, l.Reason))
	}
}

func (f *FS) reportOnce(problem string) {
	f.told.mu.Lock()
	defer f.told.mu.Unlock()
	if f.told.problems[problem] || len(f.told.problems) >= maxTold {
		return
	}
	if f.told.problems == nil {
		f.told.problems = map[string]bool{}
	}
	f.told.problems[problem] = true
	f.Report(problem)
}
